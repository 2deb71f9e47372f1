"""The report of a drill: phases from what the reconciler answers, objectives, and the four forms."""

import json
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from console.drill_watch import Watch
from console.drills import FORMATS, KINDS, Report, Timed, decode, objectives, phases_of, render

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
    chip = KINDS["chip-fault"]
    assert objectives("detect=2s, taint=500ms,ready=2m", "real", chip) == {"detect": 2.0, "taint": 0.5, "ready": 120.0}
    assert objectives("", "shadow", chip) == {}
    assert objectives("detect=60s,reverted=2m", "real", KINDS["node-silent"]) == {"detect": 60.0, "reverted": 120.0}


@pytest.mark.parametrize(
    ("text", "effect", "kind", "why"),
    [
        ("detect", "real", "chip-fault", "is no PHASE=TIME"),
        ("detect=2", "real", "chip-fault", "is no PHASE=TIME"),
        ("lunch=2s", "real", "chip-fault", "phases are detect"),
        ("taint=2s", "shadow", "chip-fault", "use --effect real"),
        ("taint=2s", "real", "node-silent", "such a drill has no such phase, but detect, reverted"),
        ("taint=2s", "real", "software-fault", "but detect, delete, ready"),
    ],
)
def test_bad_objectives(text: str, effect: str, kind: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        objectives(text, effect, KINDS[kind])


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


def test_what_must_change_nothing_is_said_to_be_held() -> None:
    assert {name for name, kind in KINDS.items() if kind.held} == {"node-silent", "redis-down"}
    report = Report("d1", "n", "node-silent", "NW-AGENT-SILENT@node", "real", "", [], held="silence is not death")
    assert "  held: silence is not death" in render(report, "text").splitlines()
    assert "- held: silence is not death" in render(report, "markdown").splitlines()
    out = ElementTree.fromstring(render(report, "junit")).find("system-out")
    assert out is not None
    assert out.text is not None
    assert "held: silence is not death" in out.text


FAULT = {"origin": "drill", "evidence": {"drill": "d1"}}


def recovery(phase: str, *, name: str = "r1", origin: str = "drill", deleted: bool = True) -> dict[str, Any]:
    spec = {"origin": origin, "cause": {"nodes": ["n"]}}
    times = {"deleted": "2026-01-01T00:00:00Z"} if deleted else {}
    return {"namespace": "ml", "name": name, "spec": spec, "status": {"phase": phase, "times": times}}


def test_phases_of_a_real_drill() -> None:
    watch = Watch("d1", "chip-fault", "n", "real", {"ml/old"}, 100.0)
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
    empty = Watch("d1", "chip-fault", "n", "real", set(), 0.0)
    empty.see(None, {"faults": [FAULT], "taint": {}}, [], 1)
    assert not empty.complete({}, 500), "no taint: only its time ends it"
    empty.see(None, {"faults": [FAULT], "taint": {"value": "x"}}, [], 2)
    assert not empty.complete({}, 3)
    assert empty.complete({}, 8), "nothing is restarted there"
    assert not empty.complete({"ready": 60}, 8)
    shadow = Watch("d1", "chip-fault", "n", "shadow", set(), 0.0)
    shadow.see({"would": ["taint n"]}, {"faults": [FAULT]}, [], 1)
    assert not shadow.complete({}, 1)
    assert shadow.complete({}, 3)
    assert shadow.would == ["taint n"]


def test_a_silent_node_is_proven_by_what_is_left_alone() -> None:
    watch = Watch("d1", "node-silent", "n", "real", set(), 0.0)
    well: dict[str, Any] = {"faults": [], "taint": None}
    watch.see({"state": "running"}, well, [], 10)
    assert watch.at_s == {}
    watch.see({"state": "running", "held": "silence is not death"}, well, [], 50)
    assert (watch.at_s, watch.held) == ({"detect": 50}, "silence is not death")
    assert not watch.complete({}, 50.5)
    assert watch.complete({}, 52)
    watch.see({"state": "running"}, {"faults": [], "taint": {"value": "NodeDead"}}, [], 53)
    assert "was isolated although nothing is known against it" in watch.harm


def test_a_taint_for_a_fault_of_its_own_is_no_harm_done_by_silence() -> None:
    watch = Watch("d1", "node-silent", "n", "real", set(), 0.0)
    watch.see(None, {"faults": [], "taint": None}, [], 1)
    watch.see(None, {"faults": [{"origin": "probe"}], "taint": {"value": "SeparateNPU"}}, [], 2)
    assert watch.harm == ""


def software(name: str, pod: str, phase: str = "Recovered") -> dict[str, Any]:
    found = recovery(phase, name=name)
    found["spec"]["cause"] = {"kind": "Software", "faults": [f"pod {pod} Failed (Drill)"]}
    return found


def test_a_pod_that_ends_is_told_from_its_neighbours() -> None:
    watch = Watch("d1", "software-fault", "n", "real", set(), 0.0, "ml/j-1")
    node: dict[str, Any] = {"faults": [], "taint": {"value": "SeparateNPU"}}
    watch.see({"would": ["restart ml/j (2 pods, force)"]}, node, [software("r0", "j-11")], 1)
    assert watch.restarts
    assert watch.at_s == {}
    watch.see(None, node, [software("r0", "j-11"), software("r1", "j-1", "Deleting")], 2)
    assert not watch.complete({}, 99)
    watch.see(None, node, [software("r0", "j-11"), software("r1", "j-1")], 3)
    assert watch.at_s == {"detect": 2, "delete": 2, "ready": 3}
    assert watch.complete({}, 3)


@pytest.mark.parametrize(("phase", "ends"), [("OwnerTerminal", True), ("Exhausted", True), ("Escalated", False)])
def test_a_restart_that_fails_ends_the_drill_and_fails_it(phase: str, ends: bool) -> None:
    watch = Watch("d1", "software-fault", "n", "real", set(), 0.0, "ml/j-1")
    watch.see(None, {"faults": [], "taint": None}, [software("r1", "j-1", phase)], 1)
    assert watch.complete({"ready": 60}, 2) is ends
    assert (f"ended as {phase}" in watch.harm) is ends


@pytest.mark.parametrize("form", FORMATS)
def test_what_somebody_has_written_into_it_steers_no_terminal(form: str) -> None:
    kept = msgspec.structs.replace(MISSED, node="n\x1b]0;gone\x07", why="a\x9b2J", would=["restart \x1b[31m"])
    text = render(kept, form)
    assert text.replace("\n", "").isprintable()
    assert "\x1b" not in text
    if form == "junit":
        assert ElementTree.fromstring(text).get("name") == "drill card-lost"
