"""Detection scenarios: our own files, the ones beside the checkout, and what is said about files that cannot be run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from console.scenario import cli
from console.scenario.cli import run
from console.scenario.common import ScenarioError

OWN = Path(__file__).parent / "detection"
SHARED = Path(__file__).parents[3] / "shared" / "scenarios" / "detection"

GOOD = """\
kind: detection
name: one fault
timeline:
  - {at: 1, occur: {chip: 3, code: "80E18402", severity: 3}}
expect:
  - {at: 2, faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]}
"""


def names(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.yaml"))


@pytest.mark.parametrize("path", names(OWN), ids=lambda path: path.stem)
def test_own(path: Path) -> None:
    result = run(path)
    assert result.failures == []
    assert result.ok


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="no scenario files beside the checkout")
@pytest.mark.parametrize("path", names(SHARED), ids=lambda path: path.stem)
def test_beside_the_checkout(path: Path) -> None:
    result = run(path)
    assert result.failures == []
    assert result.ok


@pytest.mark.parametrize(
    ("old", "new", "failure"),
    [
        pytest.param(
            "SeparateNPU",
            "RestartNPU",
            "at 2: faults: expected [80E18402@3 RestartNPU], got [80E18402@3 SeparateNPU]",
            id="another level",
        ),
        pytest.param(
            'faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]',
            "faults: []",
            "at 2: faults: expected [], got [80E18402@3 SeparateNPU]",
            id="a fault too many",
        ),
        pytest.param(
            'faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]',
            "faults: [{chip: 3}, {chip: 4}]",
            "at 2: faults: expected [any code@3 any level, any code@4 any level], got [80E18402@3 SeparateNPU]",
            id="a fault missing",
        ),
        pytest.param(
            'faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]',
            "healthy: {3: true, node: true}",
            "at 2: healthy 3: expected true, got false",
            id="health",
        ),
        pytest.param(
            'faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]',
            "events: []",
            "at 2: events: expected [], got [raised 80E18402@3]",
            id="events",
        ),
        pytest.param(
            'faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]',
            "unknown: [{chip: 5}]",
            "at 2: unknown: expected [5], got []",
            id="unknown",
        ),
        pytest.param(
            'faults: [{chip: 3, code: "80E18402", level: SeparateNPU}]',
            "queries: 4",
            "at 2: queries: expected 4, got 0",
            id="queries",
        ),
    ],
)
def test_what_does_not_hold_is_told_with_what_was_there(tmp_path: Path, old: str, new: str, failure: str) -> None:
    path = tmp_path / "scenario.yaml"
    head, expect = GOOD.split("expect:")
    path.write_text(f"{head}expect:{expect.replace(old, new)}")
    result = run(path)
    assert not result.ok
    assert result.failures == [failure]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kind: detection", "kind: detecting", ["kind", "detecting"]),
        ("name: one fault", "title: one fault", ["title"]),
        ("name: one fault", "name: one fault\nname: another", ["line 3", "name", "twice"]),
        ("severity: 3", "severity: 4", ["$.timeline[0].occur.severity", "3"]),
        ("severity: 3", "seriousness: 3", ["seriousness", "$.timeline[0].occur"]),
        ('code: "80E18402", severity', "code: 80818002, severity", ["$.timeline[0].occur.code", "quote it"]),
        ("chip: 3, code", "chip: 8, code", ["$.timeline[0].occur.chip", "no chip 8"]),
        ("at: 1, occur", "at: 1, gone: {chip: 1}, occur", ["$.timeline[0]", "exactly one step", "occur, gone"]),
        ("at: 1, occur", "at: soon, occur", ["$.timeline[0].at"]),
        ("at: 1, occur", "at: 100000000, occur", ["$.timeline[0].at", "604800"]),
        ("level: SeparateNPU", "level: Separate", ["Separate", "$.expect[0].faults[0].level"]),
        ("expect:", "config: {agent: {debounce: {flap: 3}}}\nexpect:", ["flap", "$.config.agent.debounce"]),
        ("expect:", "config: {agent: {poll: {chips_s: 0}}}\nexpect:", ["$.config.agent", "poll.chips_s"]),
        ("expect:", "machine: {chips: 0}\nexpect:", ["$.machine.chips"]),
        ("timeline:", "timeline: [", ["YAML"]),
    ],
)
def test_a_file_that_cannot_be_run_names_the_key(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    path = tmp_path / "scenario.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        run(path)
    assert [word for word in words if word not in str(caught.value)] == []


def test_command_prints_a_line_for_each_file_and_exits_0_when_all_hold(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    done = CliRunner().invoke(cli.test, [str(path), str(path)])
    assert done.exit_code == 0
    assert done.output.splitlines() == [f"ok    {path}: one fault"] * 2


def test_command_exits_1_when_one_fails_and_says_why(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("level: SeparateNPU", "level: RestartNPU"))
    done = CliRunner().invoke(cli.test, [str(bad), str(good)])
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[0] == f"FAIL  {bad}: one fault"
    assert "expected [80E18402@3 RestartNPU], got [80E18402@3 SeparateNPU]" in lines[1]
    assert lines[2].startswith("ok ")


def test_command_exits_2_when_a_file_cannot_be_read_and_still_runs_the_others(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(GOOD)
    missing = tmp_path / "missing.yaml"
    done = CliRunner().invoke(cli.test, [str(missing), str(good)])
    assert done.exit_code == 2
    assert f"ERROR {missing}: cannot be read: No such file or directory" in done.output
    assert "ok " in done.output


def test_command_in_json(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text("kind: none")
    done = CliRunner().invoke(cli.test, ["--json", str(good), str(bad)])
    first, second = map(json.loads, done.output.splitlines())
    assert first == {"path": str(good), "name": "one fault", "ok": True, "failures": []}
    assert second["path"] == str(bad)
    assert "none" in second["error"]
    assert done.exit_code == 2
