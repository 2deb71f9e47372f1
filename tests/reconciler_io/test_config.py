"""Configuration: read whole or refused with the file and the key, and a policy that changes while it is in force."""

import logging
import os
from pathlib import Path

import pytest

from reconciler.config import PolicyFile, load_config
from reconciler.core.policy import Policy
from shared.config import ConfigError, load_toml
from shared.redis_url import RedisSettings

WHOLE = """
policy = "policy.toml"
[kube]
kubeconfig = "admin.conf"
namespace = "elsewhere"
[redis]
url = "rediss://redis.example:6380/1"
username = "reconciler"
password_file = "/run/secrets/redis"
ca_file = "ca.crt"
[http]
listen = "127.0.0.1:9466"
"""


def write(path: Path, text: str) -> Path:
    """Write so that the file is new, as an editor or a ConfigMap volume does it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)
    return path


def test_relative_paths_are_beside_the_file(tmp_path: Path) -> None:
    config = load_config(write(tmp_path / "reconciler.toml", WHOLE))
    assert config.policy == str(tmp_path / "policy.toml")
    assert config.kube.kubeconfig == str(tmp_path / "admin.conf")
    assert config.redis.ca_file == str(tmp_path / "ca.crt")
    assert config.redis.password_file == "/run/secrets/redis"
    assert load_config(None).http.listen == ":9466"


REFUSED = {
    "an unknown table": ("[kubernetes]\n", "kubernetes"),
    "an unknown key": ('[redis]\nurl = "redis://h/0"\npasword = "x"\n', "pasword"),
    "a wrong type": ("[kube]\nnamespace = 7\n", "namespace"),
    "no redis URL": ('[redis]\nurl = "redis.example:6379"\n', "url"),
    "another scheme": ('[redis]\nurl = "http://redis.example"\n', "url"),
    "a port that is none": ('[redis]\nurl = "redis://redis.example:port/0"\n', "url"),
    "no port to listen on": ('[http]\nlisten = "9466"\n', "listen"),
    "no TOML": ("[kube\n", "not TOML"),
}


@pytest.mark.parametrize(("text", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_used_is_one_line_with_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    path = write(tmp_path / "reconciler.toml", text)
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert str(path) in str(refused.value)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_in_the_url_is_never_shown(tmp_path: Path) -> None:
    assert "secret" not in RedisSettings(url="redis://user:secret@redis.example/0").shown
    path = write(tmp_path / "reconciler.toml", '[redis]\nurl = "http://user:secret@redis.example"\n')
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert "secret" not in str(refused.value)


def test_a_changed_policy_is_taken_and_a_bad_one_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "policy.toml", "[isolate]\nhold_down_s = 60\n")
    file = PolicyFile(str(path))
    assert file.policy.isolate.hold_down_s == 60
    assert file.reload() is None

    write(path, "[isolate]\nhold_down_s = 90\n")
    assert file.reload() is True
    assert file.policy.isolate.hold_down_s == 90

    for bad, named in (
        ("[isolate]\nhold_down = 5\n", "hold_down"),
        ("[reschedule]\ngrace_over_time_s = 1\n", "grace_over_time_s"),
        ('[budget]\nrestarting = "many"\n', "budget.restarting"),
        ("[levels.Worst]\ntaint = 'none'\n", "Worst"),
    ):
        caplog.clear()
        write(path, bad)
        assert file.reload() is False
        assert file.policy.isolate.hold_down_s == 90
        (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
        assert named in record.getMessage()
        assert str(path) in record.getMessage()
        assert file.reload() is None  # said once

    path.unlink()
    assert file.reload() is False
    assert file.policy.isolate.hold_down_s == 90
    write(path, "observe_only = true\n")
    assert file.reload() is True
    assert file.policy.observe_only


def test_a_bad_policy_at_the_start_is_only_observed_until_it_is_mended(tmp_path: Path) -> None:
    path = write(tmp_path / "policy.toml", "observe = true\n")
    for name, why in ((path, "observe"), (tmp_path / "absent.toml", "absent")):
        file = PolicyFile(str(name))
        assert file.policy == Policy(observe_only=True)
        assert not file.known
        assert why in str(file.error)
        assert "nothing is done until it is mended" in str(file.error)
    file = PolicyFile(str(path))
    write(path, "still = 'bad'\n")
    assert file.reload() is False
    assert file.policy.observe_only
    write(path, "[isolate]\nhold_down_s = 3\n")
    assert file.reload() is True
    assert (file.policy.observe_only, file.known, file.error) == (False, True, None)
    write(path, "bad\n")
    assert file.reload() is False
    assert file.policy.isolate.hold_down_s == 3
    assert "the one before stays in force" in str(file.error)
    assert PolicyFile(None).known


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("# ours\n[isolate]\nhold_down_s = 'long'\n", 3, "hold_down_s"),
        ("[isolate]\nscope = 'node'\nhold_dwn_s = 5\n", 3, "hold_dwn_s"),
        ("isolate.hold_down_s = -1\n", 1, "hold_down_s"),
        ("isolate = {scope = 'node', hold_down_s = -1}\n", 1, "hold_down_s"),
        (
            "[levels.RestartNPU]\ntaint = 'none'\nreschedule = 'never'\n[levels.SubHealthFault]\ntaint = 'No'\n",
            5,
            "taint",
        ),
        ("[isolate]\n[levels.Worst]\ntaint = 'none'\n", 2, "Worst"),
        ("[reschedule]\n\ngrace_over_time_s = 1\n", 3, "grace_over_time_s"),
        ("[breaker]\nmin_nodes = 3\nnodes = 'many'\n", 3, "breaker.nodes"),
        ("[observe]\ncodes = [\n  'A',\n  5,\n]\n", 2, "codes"),
        ('[observe]\ncodes = ["""\n[isolate]\nscope = 1"""]\n[isolate]\nscope = 1\n', 6, "scope"),
        ("observe_only = 'yes'\n", 1, "observe_only"),
        ("[detect]\n[isolate\n", 2, "line 2"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, key: str) -> None:
    path = write(tmp_path / "policy.toml", text)
    with pytest.raises(ConfigError) as refused:
        load_toml(path, Policy)
    assert f"line {line}" in str(refused.value), refused.value
    assert key in str(refused.value)


def test_a_refused_policy_is_told_until_a_good_one_comes(tmp_path: Path) -> None:
    path = write(tmp_path / "policy.toml", "")
    policy = PolicyFile(str(path))
    assert policy.error is None
    write(path, "[isolate]\nhold_down = 3\n")
    assert policy.reload() is False
    assert policy.error is not None
    assert "hold_down" in policy.error
    write(path, "[isolate]\nhold_down_s = 3\n")
    assert policy.reload() is True
    assert policy.error is None
