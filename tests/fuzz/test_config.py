"""Configuration that is damaged: ConfigError in one line that names the file, or settings that can be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import AgentConfig
from agent.config import load as load_agent
from reconciler.config import ReconcilerConfig, load_config
from reconciler.core.policy import Policy
from shared.config import ConfigError, load_toml
from tests.fuzz.damage import FUZZ, damaged
from tests.fuzz.test_host_files import scratch

GOOD = {
    "agent": b"""node = "node-a"
[poll]
chips_s = 5
host_s = 10.0
[debounce]
flaps = 5
lost_card_polls = 3
[redis]
url = "redis://127.0.0.1:6379/0"
timeout_s = 2
[http]
listen = ":9465"
[paths]
state_dir = "/var/lib/npu-warden"
dcmi = "/usr/local/dcmi/libdcmi.so"
[probes.kmsg]
hold_s = 600
""",
    "reconciler": b"""policy = "policy.toml"
[redis]
url = "rediss://redis.example:6379/0"
[http]
listen = "127.0.0.1:9466"
[kube]
namespace = "npuwarden-system"
""",
    "policy": b"""observe_only = false
[detect]
not_ready_storm = 0.34
[isolate]
hold_down_s = 300
scope = "node"
[budget]
restarting = "10%"
deletes_per_min = 60
[breaker]
nodes = "50%"
[levels.SeparateNPU]
taint = "NoSchedule"
reschedule = "now"
""",
}
LOADERS: dict[str, tuple[Callable[[Path], object], type]] = {
    "agent": (load_agent, AgentConfig),
    "reconciler": (load_config, ReconcilerConfig),
    "policy": (lambda path: load_toml(path, Policy), Policy),
}
VALUES = st.sampled_from(
    [
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e400",
        "9" * 400,
        "true",
        '""',
        '"\\u0000"',
        "[]",
        "{}",
        "1979-05-27",
        "07:32:00",
    ]
)


@st.composite
def settings_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A kind of file, and one of it with damaged bytes or a value of another kind."""
    name = draw(st.sampled_from(sorted(GOOD)))
    if draw(st.booleans()):
        return name, draw(damaged(GOOD[name]))
    lines = GOOD[name].decode().splitlines()
    place = draw(st.sampled_from([number for number, line in enumerate(lines) if " = " in line]))
    lines[place] = f"{lines[place].partition(' = ')[0]} = {draw(VALUES)}"
    return name, "\n".join(lines).encode()


@FUZZ
@given(file=settings_files())
def test_a_damaged_file_is_one_clear_error_or_settings(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, bytes]
) -> None:
    name, raw = file
    load, kind = LOADERS[name]
    with scratch(tmp_path_factory) as directory:
        path = directory / f"{name}.toml"
        path.write_bytes(raw)
        error = None
        try:
            settings = load(path)
        except ConfigError as exc:
            error = str(exc)
        if error is None:
            assert isinstance(settings, kind)
        else:
            assert str(path) in error
            assert error.isprintable()
            error.encode()


@pytest.mark.parametrize("name", sorted(GOOD))
def test_the_undamaged_file_is_good(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.toml"
    path.write_bytes(GOOD[name])
    load, kind = LOADERS[name]
    assert isinstance(load(path), kind)
