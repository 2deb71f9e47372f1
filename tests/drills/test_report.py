"""The report of a drill: phases from what the reconciler answers, objectives, and the four forms."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from console.drills import KINDS, Report, Timed, Watch, decode, objectives, phases_of, render

OK = Report(
    "d1",
    "node-0",
    "chip-fault",
    "80E18402@0",
    "real",
    "2026-01-01T00:00:00.000Z",
    [Timed("detect", 1.24, 2.0), Timed("taint", 1.5), Timed("ready", 60.0, 120.0)],
    recoveries=["ml/j-1: Recovered"],
)
MISSED = Report("d1", "n", "card-lost", "40F84E00@0", "shadow", "", [Timed("detect", None, 2.0)], why="cut short | <x>")


def test_objectives() -> None:
    assert objectives("detect=2s, taint=500ms,ready=2m", "real") == {"detect": 2.0, "taint": 0.5, "ready": 120.0}
    assert objectives("", "shadow") == {}


@pytest.mark.parametrize(
    ("text", "effect", "why"),
    [
        ("detect", "real", "is no PHASE=TIME"),
        ("detect=2", "real", "is no PHASE=TIME"),
        ("lunch=2s", "real", "phases are detect"),
        ("taint=2s", "shadow", "use --effect real"),
    ],
)
def test_bad_objectives(text: str, effect: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        objectives(text, effect)


def test_verdicts() -> None:
    assert [one.verdict for one in OK.phases] == ["met", "-", "met"]
    assert [Timed("detect", 3.0, 2.0).verdict, Timed("detect", None, 2.0).verdict] == ["missed", "missed"]
    assert OK.ok
    assert not MISSED.ok
    assert [one.phase for one in phases_of({"taint": 1.0, "detect": 0.5}, {"ready": 9})] == ["detect", "taint", "ready"]


def test_text_and_markdown() -> None:
    assert render(OK, "text").splitlines() == [
        "drill d1: chip-fault 80E18402@0 on node-0, effect real: ok",
        "  detect       1.2s  objective    2.0s  met",
        "  taint        1.5s  objective       -  -",
        "  ready       60.0s  objective  120.0s  met",
        "  recovery ml/j-1: Recovered",
    ]
    assert "| detect | - | 2.0s | missed |" in render(MISSED, "markdown")
    assert "FAILED" in render(MISSED, "markdown").splitlines()[0]


def test_junit() -> None:
    good, bad = ElementTree.fromstring(render(OK, "junit")), ElementTree.fromstring(render(MISSED, "junit"))
    assert (good.get("tests"), good.get("failures")) == ("3", "0")
    assert (bad.get("tests"), bad.get("failures")) == ("2", "2")
    assert [one.get("message") for one in bad.iter("failure")][1] == "cut short | <x>"


def test_json_is_what_is_kept() -> None:
    raw = render(OK, "json")
    assert json.loads(raw)["ok"] is True
    assert decode(raw) == OK
    with pytest.raises(ValueError, match="no report of a drill"):
        decode("{}")


def test_every_kind_is_injected_or_says_why_not() -> None:
    assert {name for name, kind in KINDS.items() if kind.code is None} == {
        "node-silent",
        "software-fault",
        "redis-down",
    }
    assert all(kind.says for kind in KINDS.values())


FAULT = {"origin": "drill", "evidence": {"drill": "d1"}}


def recovery(phase: str, *, name: str = "r1", origin: str = "drill", deleted: bool = True) -> dict[str, Any]:
    spec = {"origin": origin, "cause": {"nodes": ["n"]}}
    times = {"deleted": "2026-01-01T00:00:00Z"} if deleted else {}
    return {"namespace": "ml", "name": name, "spec": spec, "status": {"phase": phase, "times": times}}


def test_phases_of_a_real_drill() -> None:
    watch = Watch("d1", "n", "real", {"ml/old"}, 100.0)
    node: dict[str, Any] = {"faults": [], "taint": None}
    watch.see(None, node, [], 100.5)
    assert not watch.complete({}, 100.5)
    node["faults"] = [{"origin": "drill", "evidence": {"drill": "another"}}, FAULT]
    watch.see(None, node, [], 101)
    node["taint"] = {"value": "SeparateNPU"}
    strangers = [recovery("Isolating", name="old"), recovery("Isolating", name="r0", origin="probe")]
    watch.see(None, node, strangers, 102)
    watch.see(None, node, [*strangers, recovery("Isolating", deleted=False)], 103)
    assert not watch.complete({}, 120)
    watch.see(None, node, [recovery("Recreating")], 104)
    watch.see(None, node, [recovery("Recovered")], 110)
    assert watch.at_s == {"detect": 1, "taint": 2, "delete": 4, "ready": 10}
    assert watch.complete({}, 110)
    assert watch.recoveries == ["ml/r1: Recovered"]


def test_when_there_is_nothing_more_to_wait_for() -> None:
    empty = Watch("d1", "n", "real", set(), 0.0)
    empty.see(None, {"faults": [FAULT], "taint": {}}, [], 1)
    assert not empty.complete({}, 500), "no taint: only its time ends it"
    empty.see(None, {"faults": [FAULT], "taint": {"value": "x"}}, [], 2)
    assert not empty.complete({}, 3)
    assert empty.complete({}, 8), "nothing is restarted there"
    assert not empty.complete({"ready": 60}, 8)
    shadow = Watch("d1", "n", "shadow", set(), 0.0)
    shadow.see({"would": ["taint n"]}, {"faults": [FAULT]}, [], 1)
    assert not shadow.complete({}, 1)
    assert shadow.complete({}, 3)
    assert shadow.would == ["taint n"]
