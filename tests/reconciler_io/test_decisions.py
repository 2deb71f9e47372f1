"""The decision log: lines of what was done and refused; trouble with its file is counted and holds up nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from reconciler import decisions
from reconciler.core.actions import Hold, Release, SetCondition
from reconciler.core.calls import Outcome
from reconciler.core.objects import Meta, Node
from reconciler.core.wishes import Wish, wish_event
from reconciler.decisions import Decisions
from reconciler.metrics import Metrics
from shared.config import ConfigError
from shared.model import Instant

NOW = Instant(mono=5.0, wall=1_800_000_000.0)
NODE = Node(Meta("a", uid="u"))
DONE, REFUSED = Outcome(True), Outcome(False, "conflict", "somebody was faster")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def lost(metrics: Metrics) -> float:
    return metrics.lost_decisions._value.get()  # type: ignore[no-any-return]


def test_actions_and_the_beginning_and_end_of_refusals_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = Decisions(path, "me", Metrics())
    with log.writing():
        log.done(Release(NODE, "healed for 300 s"), DONE, NOW)
        log.done(Release(NODE, "healed for 300 s"), REFUSED, NOW)
        log.done(SetCondition(NODE, "True", "Healthy", ""), DONE, NOW)
        log.held([Hold("ml/j", "muted", "in 60 s")], NOW)
        log.held([Hold("ml/j", "muted", "in 55 s")], NOW)
        log.held([], NOW)
    first, second, begun, ended = lines(path)
    assert first == {
        "at": "2027-01-15T08:00:00.000Z",
        "by": "me",
        "action": "Release",
        "object": "Node/a",
        "done": True,
        "why": ["healed for 300 s"],
    }
    assert (second["done"], second["reason"], second["message"]) == (False, "conflict", "somebody was faster")
    assert (begun["held"], begun["object"], begun["message"]) == ("muted", "ml/j", "in 60 s")
    assert ended["hold-ended"] == "muted"


def test_what_people_ask_is_kept_with_who_and_why(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = Decisions(path, "me", Metrics())
    said = wish_event(Wish("pause", "npuwarden-control", "works (by alice)"), {}, stands=True, now=NOW)
    with log.writing():
        log.asked(said, NOW)
        log.done(Release(NODE, "released by hand: fixed"), Outcome(True, message="by somebody with kubectl-edit"), NOW)
    asked, released = lines(path)
    assert (asked["asked"], asked["object"]) == ("Paused", "ConfigMap/npuwarden-control")
    assert "works (by alice)" in asked["message"]
    assert released["message"] == "by somebody with kubectl-edit"


def test_a_later_process_appends(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    for holder in ("one", "two"):
        log = Decisions(path, holder, Metrics())
        with log.writing():
            log.done(Release(NODE, "why"), DONE, NOW)
    assert [line["by"] for line in lines(path)] == ["one", "two"]


def test_the_log_is_bounded_by_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "FILE_BYTES", 2000)
    path = tmp_path / "decisions.jsonl"
    log = Decisions(path, "me", Metrics())
    with log.writing():
        for _ in range(500):
            log.done(Release(NODE, "why"), DONE, NOW)
    assert len(list(tmp_path.iterdir())) == 1 + decisions.FILES
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2000 * (decisions.FILES + 1)


def test_a_burst_of_refusals_is_cut_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = Decisions(path, "me", Metrics())
    with log.writing():
        log.held([Hold(f"n{i}", "breaker", "") for i in range(decisions.LINES_A_PLAN + 7)], NOW)
    assert len(lines(path)) == decisions.LINES_A_PLAN + 1
    assert lines(path)[-1]["message"] == "and 7 more"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_costs_lines_which_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    log = Decisions(path, "me", metrics)
    with log.writing():
        for _ in range(3):
            log.done(Release(NODE, "why"), DONE, NOW)
    assert lost(metrics) == 3


def test_a_file_that_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path) -> None:
    log = Decisions(tmp_path / "absent" / "log", "me", Metrics())
    with pytest.raises(ConfigError, match="absent/log"), log.writing():
        pass


def test_without_a_path_nothing_is_kept(tmp_path: Path) -> None:
    log = Decisions(None, "me", Metrics())
    with log.writing():
        log.done(Release(NODE, "why"), DONE, NOW)
    assert list(tmp_path.iterdir()) == []
