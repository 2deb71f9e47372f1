"""config check and config show: files told apart, errors that name the key, text that reads back."""

import json
import tomllib
from pathlib import Path

import pytest

from console.cli.toml import dump
from tests.console.conftest import Run

USABLE = [
    ("policy", "[isolate]\nhold_down_s = 60\n\n[levels.SeparateNPU]\ntaint = 'NoSchedule'\n"),
    ("agent", "[poll]\nchips_s = 2.5\n"),
    ("reconciler", "policy = 'policy.toml'\n[kube]\nnamespace = 'elsewhere'\n"),
]


def written(path: Path, text: str) -> str:
    file = path / "some.toml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(("kind", "text"), USABLE, ids=[kind for kind, _ in USABLE])
def test_a_usable_file_is_told_by_its_tables(kind: str, text: str, run: Run, tmp_path: Path) -> None:
    result = run("config", "check", written(tmp_path, text))
    assert result.exit_code == 0
    assert f"{kind}.toml" in result.output


BAD = [
    ("an unknown key", "[isolate]\nhold_s = 60\n", ["hold_s", "isolate"]),
    ("a wrong type", "[isolate]\nhold_down_s = 'long'\n", ["isolate.hold_down_s"]),
    ("a bad share", "[budget]\nrestarting = 'many'\n", ["budget.restarting"]),
    ("out of bounds", "[poll]\nchips_s = 0\n", ["poll.chips_s"]),
    ("an URL that is none", "[kube]\n[redis]\nurl = 'redis:'\n", ["redis"]),
]


@pytest.mark.parametrize(("text", "words"), [(t, w) for _, t, w in BAD], ids=[name for name, _, _ in BAD])
def test_a_bad_file_is_unusable_and_file_and_key_are_named(
    text: str, words: list[str], run: Run, tmp_path: Path
) -> None:
    file = written(tmp_path, text)
    result = run("config", "check", file)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in [file, *words]), result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_bad_file_as_json(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, "[isolate]\nhold_s = 60\n")
    result = run("config", "check", file, "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert (found["file"], found["kind"], found["ok"]) == (file, "policy", False)
    assert "hold_s" in found["error"]


@pytest.mark.parametrize("text", ["", "[redis]\nurl = 'redis://x:1/0'\n", "[nothing]\n"])
def test_a_file_that_could_be_several_things_asks_for_its_kind(text: str, run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    result = run("config", "check", file)
    assert result.exit_code == 2
    assert "--kind" in result.stderr
    assert run("config", "check", file, "--kind", "agent").exit_code == (2 if text == "[nothing]\n" else 0)


def test_the_name_tells_what_the_tables_do_not(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[isolat]\nhold_down_s = 60\n")
    result = run("config", "check", str(tmp_path / "policy.toml"))
    assert result.exit_code == 2
    assert "`isolat`; did you mean isolate?" in result.stderr
    (tmp_path / "agent.toml").write_text("")
    assert "usable as agent.toml" in run("config", "check", str(tmp_path / "agent.toml")).output


def test_tables_that_nothing_knows_are_named(run: Run, tmp_path: Path) -> None:
    assert "unknown: isolat" in run("config", "check", written(tmp_path, "[isolat]\n")).stderr


HINTS = [
    ("a key", "[isolate]\nhold_down = 3\n", "did you mean hold_down_s?"),
    ("a key like no other", "[isolate]\nzebra = 3\n", "known keys: hold_down_s, "),
    ("a level", "[levels.Separate]\n", "did you mean SeparateNPU?"),
    ("a key of a level", "[levels.SeparateNPU]\ntant = 'none'\n", "did you mean taint?"),
    ("a word", "[levels.SeparateNPU]\ntaint = 'NoSchedul'\n", "allowed: NoSchedule, PreferNoSchedule, none"),
]


@pytest.mark.parametrize(("text", "hint"), [(t, h) for _, t, h in HINTS], ids=[name for name, _, _ in HINTS])
def test_what_may_have_been_meant(text: str, hint: str, run: Run, tmp_path: Path) -> None:
    result = run("config", "check", written(tmp_path, text), "--kind", "policy")
    assert result.exit_code == 2
    assert hint in result.stderr


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_that_cannot_be_read(command: str, run: Run, tmp_path: Path) -> None:
    missing = run("config", command, str(tmp_path / "missing.toml"))
    broken = run("config", command, written(tmp_path, "= 3"))
    assert (missing.exit_code, broken.exit_code) == (2, 2)
    assert "missing.toml" in missing.stderr
    assert "not TOML" in broken.stderr
    assert ("workload manifests (YAML)" in broken.stderr) == (command == "check")


@pytest.mark.parametrize("kind", ["policy", "agent", "reconciler"])
def test_shown_defaults_are_usable_as_a_file(kind: str, run: Run, tmp_path: Path) -> None:
    shown = run("config", "show", "--kind", kind)
    assert shown.exit_code == 0
    assert run("config", "check", written(tmp_path, shown.output), "--kind", kind).exit_code == 0


def test_show_lays_the_file_over_the_defaults(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path, "[isolate]\nhold_down_s = 60\n")
    settings = tomllib.loads(run("config", "show", file).output)
    assert settings["isolate"]["hold_down_s"] == 60
    assert settings["isolate"]["hold_down_max_s"] == 3600
    assert json.loads(run("config", "show", file, "--json").output) == settings


def test_show_of_nothing_is_a_usage_error(run: Run) -> None:
    assert run("config", "show").exit_code == 2


def test_dumped_text_reads_back() -> None:
    settings = {
        "flag": True,
        "number": 3,
        "share": 0.25,
        "text": 'a "quoted" \\ path\nand ü',
        "list": ["a", "b"],
        "table": {"inner": {"key": "value"}, "empty": {}},
    }
    assert tomllib.loads(dump(settings)) == settings
    assert "# url is not set" in dump({"url": None})
