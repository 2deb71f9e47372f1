"""Drills wake nobody: what the cluster, the metrics and the alerts are told of them is told apart from what is real."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.core import clock
from reconciler.core.actions import Isolate, KeepRecord, Plan, Release
from reconciler.core.calls import Outcome, Reply
from reconciler.core.event_book import EventBook
from reconciler.core.events import event
from reconciler.core.taints import record_of
from reconciler.counting import Counting
from reconciler.metrics import PREFIX, Metrics
from shared.model import Fault, FaultLevel
from shared.names import ISOLATION_ANNOTATION, ORIGIN_LABEL, TAINT_KEY
from tests.core.build import node
from tests.core.worlds import T0, a_fault, after, decide, hear, report, world_of

ALERTS = Path(__file__).parents[2] / "deploy" / "monitoring" / "alerts.yaml"
SAID = ("Node", "", "a", "uid-a", "NPUIsolated", "NoSchedule for it", "Warning", T0)


def drilled(chip: int = 3, level: FaultLevel = FaultLevel.SEPARATE_NPU) -> Fault:
    evidence = {"drill": "d1", "effect": "real", "until": T0.wall + 900}
    return replace(a_fault(chip, level=level), origin="drill", evidence=evidence)


def test_an_event_of_a_drill_says_so_and_warns_nobody() -> None:
    real, drill = event(*SAID), event(*SAID, drill=True)
    assert drill.body["metadata"]["labels"] == {ORIGIN_LABEL: "drill"}
    assert (drill.body["type"], drill.body["message"]) == ("Normal", "drill: NoSchedule for it")
    assert "labels" not in real.body["metadata"]
    assert (real.body["type"], real.body["message"]) == ("Warning", "NoSchedule for it")


def test_events_of_drills_and_of_faults_are_never_counted_as_one() -> None:
    book = EventBook(T0)
    written = []
    for call in (event(*SAID), event(*SAID, drill=True), event(*SAID)):
        assert book.say(call, T0)
    while (due := book.next(T0)) is not None:
        key, call = due
        written.append((call.body["message"], call.body["count"]))
        book.settle(key, call, Reply(201), T0)
    assert sorted(written) == [("NoSchedule for it", 2), ("drill: NoSchedule for it", 1)]


CAUSES = {
    "a drill": ((drilled(),), "drill"),
    "a fault": ((a_fault(),), "warden"),
    "a fault of the same level beside it": ((drilled(), a_fault(5)), "warden"),
    "a lesser fault beside it": ((drilled(), a_fault(5, level=FaultLevel.SUB_HEALTH)), "drill"),
    "a graver fault beside it": ((drilled(level=FaultLevel.RESTART_NPU), a_fault(5)), "warden"),
}


@pytest.mark.parametrize(("faults", "by"), CAUSES.values(), ids=CAUSES.keys())
def test_the_record_says_whose_the_isolation_is(faults: tuple[Fault, ...], by: str) -> None:
    world = world_of([node("a"), node("b")])
    hear(world, report("a", *faults), report("b"))
    (isolate,) = [action for action in decide(world).actions if isinstance(action, Isolate)]
    assert isolate.record.by == by


def isolated(by: str = "drill") -> dict[str, Any]:
    held = node("a")
    held["spec"] = {"taints": [{"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}]}
    record = {
        "session": "s",
        "since": clock.rfc3339(T0.wall),
        "by": by,
        "reasons": ["SeparateNPU 80E18402@3"],
        "boot": "b",
    }
    held["metadata"]["annotations"] = {ISOLATION_ANNOTATION: json.dumps(record)}
    return held


def test_a_real_fault_takes_over_the_isolation_of_a_drill() -> None:
    world = world_of([isolated(), node("b")])
    hear(world, report("a", drilled()), report("b"))
    assert not [action for action in decide(world).actions if isinstance(action, KeepRecord)]
    hear(world, report("a", drilled(), a_fault(5), seq=2))
    (kept,) = [action for action in decide(world, after(1)).actions if isinstance(action, KeepRecord)]
    assert kept.record is not None
    assert kept.record.by == "warden"


@pytest.mark.parametrize(("by", "origin", "counted"), [("drill", "drill", None), ("warden", "probe", 1)])
def test_a_drill_is_no_false_isolation_and_its_gauge_is_its_own(by: str, origin: str, counted: int | None) -> None:
    metrics = Metrics()
    counting = Counting(metrics)
    world = world_of([isolated(by), node("b")])
    hear(world, report("a"), report("b"))
    state = world.snapshot()
    counting.planned(state, Plan((), (), None, None))
    read = metrics.registry.get_sample_value
    assert read(f"{PREFIX}isolated_nodes", {"value": "SeparateNPU", "origin": origin}) == 1
    held = state.nodes["a"]
    assert record_of(held) is not None
    counting.came_of(Release(held, "healed", None), Outcome(True), after(10))
    assert read(f"{PREFIX}false_isolations_total", {"by": "warden"}) == counted


def test_no_alert_counts_a_drill() -> None:
    """Every metric that knows drills is read without them."""
    labelled = {
        metric.name
        for metric in Metrics().registry.collect()
        for collector in [Metrics().registry._names_to_collectors.get(metric.name)]
        if collector is not None and "origin" in getattr(collector, "_labelnames", ())
    }
    assert {f"{PREFIX}isolated_nodes", f"{PREFIX}recoveries", f"{PREFIX}recovery_seconds"} <= labelled
    rules = yaml.safe_load(ALERTS.read_text())["spec"]["groups"]
    asked = [(rule["alert"], rule["expr"]) for group in rules for rule in group["rules"]]
    for name, expr in asked:
        for metric in labelled:
            for found in re.finditer(rf"{metric}(?:_count|_sum|_bucket)?(?![a-z_])(\{{[^}}]*\}})?", expr):
                assert 'origin!="drill"' in (found[1] or ""), (name, metric)
