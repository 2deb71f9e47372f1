"""The judge sees what it is there for: a small history that is right, and each way to make it wrong."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from shared.names import LEASE, OPT_OUT_LABEL, TAINT_KEY
from tests.chaos.judge import Record, isolations_over_the_breaker, lost, violations
from tests.chaos.record import Change, Object, Write, write_of
from tests.chaos.truth import Hand, Injected, Truth

REPLICA, HOLDER = "replica-0", "vm_1"
FAULT_AT, DELETE_AT = 10.0, 11.0


def node(version: int, *, tainted: bool, **spec: Any) -> Object:
    taints = [{"key": "other/taint", "effect": "NoSchedule"}]
    taints += [{"key": TAINT_KEY, "value": "SeparateNPU", "effect": "NoSchedule"}] if tainted else []
    return {"metadata": meta("n", "uid-n", version), "spec": {"taints": taints, **spec}}


def meta(name: str, uid: str, version: int, **more: Any) -> Object:
    return {"name": name, "uid": uid, "resourceVersion": str(version), "namespace": "ml", **more}


def pod(name: str, version: int, *, ending: bool = False, job: str = "j", uid: str = "") -> Object:
    more: Object = {"labels": {"job-name": job}, "annotations": {"huawei.com/AscendReal": "Ascend910-3"}}
    if ending:
        more["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta(name, uid or f"uid-{name}", version, **more), "spec": {"nodeName": "n"}, "status": {}}


def recovery(version: int, *uids: str) -> Object:
    cause = {"kind": "Hardware", "faults": ["80E18402@3 on n"], "nodes": ["n"]}
    targets = [{"pod": uid.removeprefix("uid-"), "uid": uid, "node": "n"} for uid in uids]
    spec = {"unit": "ml/j", "cause": cause, "targets": targets}
    return {"metadata": meta("r", "uid-r", version), "spec": spec, "status": {"phase": "Deleting"}}


def change(version: int, at: float, kind: str, obj: Object, what: str = "MODIFIED") -> Change:
    return Change(version, at, kind, what, obj)


def delete(at: float, version: int, name: str, *, replica: str = REPLICA, uid: str | None = None) -> Write:
    body = {"preconditions": {"uid": f"uid-{name}" if uid is None else uid}}
    return Write(replica, at, "delete", "pods", "ml", name, 200, body, pod(name, version, ending=True))


def lease(version: int, holder: str = HOLDER) -> Object:
    return {"metadata": meta(LEASE, "uid-lease", version), "spec": {"holderIdentity": holder}}


class History:
    """A chip breaks, the node is tainted, the unit's two pods are claimed and deleted."""

    def __init__(self) -> None:
        self.truth = Truth([Injected("chip", "n", FAULT_AT, 3, "80E18402")])
        self.limit = 10
        self.changes = [
            change(1, 0, "Node", node(1, tainted=False), "ADDED"),
            change(2, 0, "Pod", pod("a", 2), "ADDED"),
            change(3, 0, "Pod", pod("b", 3), "ADDED"),
            change(4, 0, "Lease", lease(4), "ADDED"),
            change(5, 10.5, "Node", node(5, tainted=True)),
            change(6, 10.6, "Recovery", recovery(6), "ADDED"),
            change(7, 10.7, "Recovery", recovery(7, "uid-a", "uid-b")),
            change(8, DELETE_AT, "Pod", pod("a", 8, ending=True)),
            change(9, DELETE_AT, "Pod", pod("b", 9, ending=True)),
        ]
        self.writes = [
            Write(REPLICA, 0, "create", "leases", "ns", LEASE, 201, {}, lease(4)),
            Write(REPLICA, 10.5, "patch", "nodes", "", "n", 200, {}, node(5, tainted=True)),
            delete(DELETE_AT, 8, "a"),
            delete(DELETE_AT, 9, "b"),
        ]

    def judged(self) -> list[str]:
        return violations(Record(self.changes, self.writes, self.truth, self.limit))


def no_uid(h: History) -> None:
    h.writes[2] = delete(DELETE_AT, 8, "a", uid="")


def unclaimed(h: History) -> None:
    h.changes[6] = change(7, 10.7, "Recovery", recovery(7, "uid-b"))


def nothing_broken(h: History) -> None:
    h.truth.faults.clear()


def another_chip(h: History) -> None:
    h.truth.faults[0].chip = 4


def healed_long_ago(h: History) -> None:
    h.truth.faults[0].began, h.truth.faults[0].ended = -500.0, -400.0


def no_taint(h: History) -> None:
    h.changes[4] = change(5, 10.5, "Node", node(5, tainted=False))
    h.writes[1] = Write(REPLICA, 10.5, "patch", "nodes", "", "n", 200, {}, node(5, tainted=False))


def other_unit(h: History) -> None:
    h.changes[2] = change(3, 0, "Pod", pod("b", 3, job="neighbour"), "ADDED")
    h.changes[8] = change(9, DELETE_AT, "Pod", pod("b", 9, ending=True, job="neighbour"))


def twice(h: History) -> None:
    h.truth.faults[0].ended = 10.9
    h.changes[6] = change(7, 10.7, "Recovery", recovery(7, "uid-a", "uid-b", "uid-a2"))
    again = copy.deepcopy(pod("a", 10, uid="uid-a2"))
    h.changes += [
        change(10, 200, "Pod", again, "ADDED"),
        change(11, 210, "Pod", pod("a", 11, ending=True, uid="uid-a2")),
    ]
    body = {"preconditions": {"uid": "uid-a2"}}
    h.writes.append(Write(REPLICA, 210, "delete", "pods", "ml", "a", 200, body, pod("a", 11, uid="uid-a2")))


def too_many(h: History) -> None:
    h.limit = 1


def uncordons(h: History) -> None:
    h.changes[0] = change(1, 0, "Node", node(1, tainted=False, unschedulable=True), "ADDED")


def not_the_leader(h: History) -> None:
    h.changes.insert(7, change(7, 10.8, "Lease", lease(7, "somebody-else")))


def opted_out(h: History) -> None:
    before = node(1, tainted=False)
    before["metadata"]["labels"] = {OPT_OUT_LABEL: "true"}
    h.changes[0] = change(1, 0, "Node", before, "ADDED")


def taken_off(h: History) -> None:
    h.changes.insert(5, change(6, 10.55, "Node", node(6, tainted=False)))


WRONG: dict[str, Callable[[History], None]] = {
    "blind_deletes": no_uid,
    "deletes_without_episode": unclaimed,
    "episodes_without_fault": nothing_broken,
    "episodes_without_fault ": another_chip,
    "episodes_without_fault  ": healed_long_ago,
    "deletes_without_taint": no_taint,
    "deletes_without_taint ": taken_off,
    "isolations_without_cause": nothing_broken,
    "isolations_of_the_opted_out": opted_out,
    "deletes_outside_the_unit": other_unit,
    "double_deletes": twice,
    "deletes_over_budget": too_many,
    "foreign_fields_touched": uncordons,
    "writes_without_the_lease": not_the_leader,
}


def test_a_right_history_is_right() -> None:
    assert History().judged() == []


@pytest.mark.parametrize("invariant", WRONG)
def test_a_wrong_one_is_seen(invariant: str) -> None:
    history = History()
    WRONG[invariant](history)
    assert invariant.strip() in {text.partition(":")[0] for text in history.judged()}


def test_a_person_who_has_just_taken_the_taint_off_is_no_fault_of_the_warden() -> None:
    history = History()
    taken_off(history)
    history.truth.hands.append(Hand("stripped", "n", 10.55))
    assert history.judged() == []


def test_the_rest_of_a_unit_goes_without_a_taint_when_somebody_else_has_ended_a_pod_of_it() -> None:
    history = History()
    taken_off(history)
    history.changes.insert(6, change(7, 10.65, "Pod", pod("b", 7, ending=True)))
    del history.writes[3]
    assert not any(text.startswith("deletes_without_taint") for text in history.judged())


def test_a_node_that_a_person_wants_isolated_has_a_cause() -> None:
    history = History()
    nothing_broken(history)
    history.truth.hands.append(Hand("isolated", "n", 5.0))
    assert not any(text.startswith("isolations_without_cause") for text in history.judged())


@pytest.mark.parametrize(("window_s", "said"), [(10.0, 1), (1.0, 0)])
def test_more_nodes_than_the_breaker_lets_pass_are_seen(window_s: float, said: int) -> None:
    names = ("a", "b", "c")
    times = {"a": 1.0, "b": 3.0, "c": 5.0}
    changes = []
    for version, name in enumerate(names, 1):
        there = node(version, tainted=True)
        there["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        changes.append(change(version, times[name], "Node", there))
    record = Record(changes, [], Truth(), 10)
    assert len(list(isolations_over_the_breaker(record, nodes=2, window_s=window_s))) == said


def test_a_fault_nobody_has_answered_is_lost() -> None:
    seen, unseen = Injected("chip", "n", 0.0, 1, "x"), Injected("chip", "n", 0.0, 2, "x")
    flicker = Injected("chip", "n", 0.0, 3, "x", steady=False)
    assert lost(Truth([seen, unseen, flicker]), [seen]) == [unseen]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/api/v1/nodes/n/status", ("nodes", "", "n")),
        ("/api/v1/namespaces/ml/pods/p", ("pods", "ml", "p")),
        ("/api/v1/namespaces", ("namespaces", "", "")),
        ("/apis/npuwarden.io/v1alpha1/namespaces/ml/recoveries", ("recoveries", "ml", "")),
    ],
)
def test_a_path_names_its_object(path: str, place: tuple[str, str, str]) -> None:
    made = write_of("r", 0.0, "PATCH", path, b"{}", 200, b"not json")
    assert (made.plural, made.namespace, made.name) == place
