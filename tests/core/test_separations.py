"""A chip separated for good stays so over a new image, a new node name and another slot, until a person says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from console.lab.cluster.store import Store
from console.scenario.virtual_clock import Clock
from console.scenario.virtual_warden import Warden
from reconciler.core import clock
from reconciler.core.policy import LevelOverride, Policy
from reconciler.core.separated import Separation, entries
from shared.model import AgentInfo, Chip, Fault, FaultLevel, NodeReport, fault_id
from shared.names import (
    CONDITION,
    CONTROL_CONFIGMAP,
    NAMESPACE,
    RELEASE_AFTER,
    RELEASE_ANNOTATION,
    SEPARATED_CONFIGMAP,
    TAINT_KEY,
)
from tests.core.build import node

CODE = "80E18008"
DIE = "10000003-00000001-00000002-00000003-00000004"


class Fleet:
    """Nodes on a virtual clock; agents that say what they are told to say."""

    def __init__(self, *names: str, policy: Policy = Policy()) -> None:  # noqa: B008
        self.clock = Clock()
        self.store = Store(self.clock.wall)
        for name in names:
            self.store.load(node(name))
        self.store.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.warden = Warden(self.store, self.clock, policy)
        self.seq = 0
        self.last: dict[str, NodeReport] = {}
        for name in names:
            self.says(name)

    def says(self, name: str, *faults: Fault, die: str | None = None, session: str = "s", chip: int = 3) -> None:
        self.seq += 1
        chips = () if die is None else (Chip(chip, "ok", die=die),)
        agent = AgentInfo("0")
        said = NodeReport(1, name, session, self.seq, "b", self.clock.wall(), agent, chips=chips, faults=faults)
        self.last[name] = said
        self.warden.hear(said)

    def separated(self, name: str, *, die: str = DIE, evidence: dict[str, Any] | None = None, code: str = CODE) -> None:
        level = FaultLevel.MANUALLY_SEPARATE_NPU
        fault = Fault(fault_id(code, 3), code, 3, level, self.clock.wall(), True, evidence=evidence or {})
        self.says(name, fault, die=die)

    def until(self, t: float) -> None:
        while self.clock.t < t:
            self.clock.advance_to(min(t, self.clock.t + 5))
            for name, said in self.last.items():
                self.seq += 1
                self.last[name] = msgspec.structs.replace(said, seq=self.seq)
                self.warden.hear(self.last[name])
            self.warden.look()
        assert self.warden.unsettled == []

    def listed(self) -> dict[str, Separation]:
        found = self.store.get("configmaps", NAMESPACE, SEPARATED_CONFIGMAP)
        return entries(found.get("data") or {}) if found else {}

    def tainted(self) -> dict[str, str]:
        taints = {
            one["metadata"]["name"]: [t["value"] for t in one["spec"].get("taints") or [] if t["key"] == TAINT_KEY]
            for one in self.store.objects("nodes")
        }
        return {name: found[0] for name, found in taints.items() if found}

    def annotate(self, name: str, key: str, value: str | None) -> None:
        found = self.store.get("nodes", "", name)
        assert found is not None
        notes = {**(found["metadata"].get("annotations") or {}), key: value}
        notes = {name: text for name, text in notes.items() if text is not None}
        self.store.load({**found, "metadata": {**found["metadata"], "annotations": notes}})

    def release(self, name: str) -> None:
        self.annotate(name, RELEASE_ANNOTATION, "swapped")

    def condition(self, name: str) -> tuple[str, str]:
        found = self.store.get("nodes", "", name)
        assert found is not None
        return next((c["status"], c["reason"]) for c in found["status"]["conditions"] if c["type"] == CONDITION)


def a_separated_die() -> Fleet:
    fleet = Fleet("a", "b", "c", "d")
    fleet.until(10)
    fleet.separated("a")
    fleet.until(20)
    return fleet


def test_a_separation_is_listed_by_its_die() -> None:
    fleet = a_separated_die()
    (die, entry) = next(iter(fleet.listed().items()))
    assert die == DIE
    assert (entry.node, entry.chip, entry.codes) == ("a", 3, (CODE,))
    assert clock.parse(entry.since) == pytest.approx(fleet.clock.wall() - 10, abs=1)
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}


def test_an_agent_that_lost_its_memory_does_not_free_the_node() -> None:
    fleet = a_separated_die()
    fleet.says("a", die=DIE, session="after a new image")
    fleet.until(2000)
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}
    assert fleet.condition("a") == ("False", "ManuallySeparateNPU")


def test_the_die_is_known_under_another_node_name_and_in_another_slot() -> None:
    fleet = a_separated_die()
    fleet.says("a")
    fleet.says("b", die=DIE, chip=5)
    fleet.until(1000)
    assert fleet.tainted() == {"b": "ManuallySeparateNPU"}


def test_a_new_leader_and_a_restart_of_redis_change_nothing() -> None:
    fleet = a_separated_die()
    fleet.warden.restart()
    fleet.says("a", die=DIE, session="new")
    fleet.until(1000)
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}


def test_a_persons_release_takes_the_die_off_the_list_and_it_stays_off() -> None:
    fleet = a_separated_die()
    fleet.release("a")
    fleet.until(30)
    assert (fleet.tainted(), fleet.listed()) == ({}, {})
    fleet.until(60)
    assert (fleet.tainted(), fleet.listed()) == ({}, {}), "its agent still shows the fault, which is forgiven"
    fleet.says("a", die=DIE)
    fleet.until(70)
    fleet.separated("a")
    fleet.until(80)
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}, "a new separation is a new one"
    assert set(fleet.listed()) == {DIE}


def test_a_release_of_the_node_the_die_has_moved_to_counts() -> None:
    fleet = a_separated_die()
    fleet.says("a")
    fleet.says("b", die=DIE)
    fleet.until(30)
    fleet.release("b")
    fleet.until(40)
    assert (fleet.tainted().get("b"), fleet.listed()) == (None, {})


def test_a_rule_with_a_release_window_frees_the_die_after_it_and_not_before() -> None:
    fleet = Fleet("a", "b", "c", "d")
    fleet.until(10)
    fleet.separated("a", evidence={RELEASE_AFTER: 600})
    fleet.until(20)
    fleet.says("a", die=DIE, session="after a new image")
    fleet.until(500)
    assert set(fleet.listed()) == {DIE}
    fleet.until(620)
    assert fleet.listed() == {}
    fleet.until(1300)
    assert fleet.tainted() == {}


def test_an_entry_made_by_hand_separates_and_other_entries_are_left_alone() -> None:
    fleet = Fleet("a", "b", "c", "d")
    metadata = {"name": SEPARATED_CONFIGMAP, "namespace": NAMESPACE}
    data = {DIE: "came back from repair twice", "11111111-2": "elsewhere"}
    fleet.store.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    fleet.says("a", die=DIE)
    fleet.until(20)
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}
    fleet.release("a")
    fleet.until(30)
    assert set(fleet.listed()) == {"11111111-2"}


@pytest.mark.parametrize("die", ["", "00000000-00000000", "FFFFFFFF-FFFFFFFF", "no key / of a ConfigMap", None])
def test_what_tells_no_two_dies_apart_is_not_listed(die: str | None) -> None:
    fleet = Fleet("a", "b", "c", "d")
    fleet.until(10)
    fleet.separated("a", die=die or "")
    fleet.until(20)
    assert fleet.listed() == {}
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}


def test_an_id_that_several_nodes_show_separates_only_where_it_was_found() -> None:
    fleet = a_separated_die()
    for name in "abc":
        fleet.says(name, die=DIE, session="new")
    fleet.until(1000)
    assert fleet.tainted() == {"a": "ManuallySeparateNPU"}


def test_a_second_code_joins_the_entry() -> None:
    fleet = a_separated_die()
    fleet.separated("a", code="80E18005")
    fleet.until(30)
    assert fleet.listed()[DIE].codes == ("80E18005",), "the newest statement of its agent"


def test_a_refused_write_is_tried_again() -> None:
    fleet = Fleet("a", "b", "c", "d")
    fleet.until(10)
    fleet.warden.refusals.add("patch", f"ConfigMap/{NAMESPACE}/{SEPARATED_CONFIGMAP}", 409, 2)
    fleet.separated("a")
    fleet.until(60)
    assert set(fleet.listed()) == {DIE}


def test_a_level_that_is_only_watched_separates_nothing() -> None:
    watched = Policy(levels={FaultLevel.MANUALLY_SEPARATE_NPU: LevelOverride(observe_only=True)})
    fleet = Fleet("a", "b", "c", "d", policy=watched)
    fleet.until(10)
    fleet.separated("a")
    fleet.until(20)
    assert (fleet.listed(), fleet.tainted()) == ({}, {})


def test_a_pause_stops_no_bookkeeping_and_a_brake_no_release() -> None:
    fleet = a_separated_die()
    control = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
    paused = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": control, "data": {"paused": "network work"}}
    fleet.store.load(paused)
    fleet.release("a")
    fleet.until(30)
    assert (fleet.listed(), fleet.tainted()) == ({}, {})


def test_entries_survive_a_round_trip() -> None:
    entry = Separation("a", 3, (CODE,), "2026-01-01T00:00:00Z", 600.0)
    assert entries({DIE: msgspec.json.encode(entry).decode()}) == {DIE: entry}
