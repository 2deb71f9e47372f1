"""What the page shows of a state, and that a change brings whoever had the frame before to the newer one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import views
from reconciler.page.delta import Delta, Frame, delta
from reconciler.page.frame import MAX_FAULTS, Framer
from reconciler.page.rows import Now
from shared.aio import now
from shared.model import Fault, FaultLevel, Unknown
from tests.core.build import node
from tests.core.journal import recovery
from tests.page.replica import Replica, a_fault, replica_of


def framed(replica: Replica, framer: Framer | None = None, *, full: bool = True) -> Frame:
    replica.decide()
    newest = replica.newest()
    assert newest is not None
    warden = views.warden(newest[0], replica.leader(), replica.policy_error())
    return (framer or Framer()).frame(*newest, warden, now(), full=full)


def row(frame: Frame, name: str) -> tuple[str, str, str, str]:
    found = frame.tables["nodes"][name]
    return found.verdict, found.chips, found.itself, found.taint


@pytest.mark.parametrize(
    ("faults", "verdict", "chips", "itself"),
    [
        ((), "o", "........", ""),
        ((a_fault(3),), "f", "...7....", ""),
        ((a_fault(3, FaultLevel.SUB_HEALTH, "1"), a_fault(3)), "f", "...7....", ""),
        ((a_fault(0, FaultLevel.NOT_HANDLE),), "o", "0.......", ""),
        ((a_fault(7, origin="drill"),), "o", ".......h", ""),
        # A drill hides no real fault, however serious it plays.
        ((a_fault(1, FaultLevel.SUB_HEALTH, "1"), a_fault(1, origin="drill")), "f", ".1......", ""),
        ((a_fault("node", FaultLevel.PRE_SEPARATE_NPU),), "f", "........", "6"),
    ],
)
def test_a_node_is_a_letter_and_a_character_for_each_chip(
    faults: tuple[Fault, ...], verdict: str, chips: str, itself: str
) -> None:
    replica = replica_of(2)
    replica.say("npu-1", *faults)
    assert row(framed(replica), "npu-1") == (verdict, chips, itself, "")
    assert row(framed(replica), "npu-0") == ("o", "........", "", "")


def test_what_cannot_be_seen_is_not_shown_as_ok() -> None:
    replica = replica_of(2)
    replica.observe(node("npu-9"))  # its agent has never spoken
    replica.say("npu-0", unseen=[2])
    heard = replica.world.heard["npu-1"]
    blind = msgspec.structs.replace(heard.report, seq=9, unknown=(Unknown(5, "optical", 0.0, "no answer"),))
    replica.world.heard["npu-1"] = type(heard)(blind, heard.at)
    frame = framed(replica)
    assert row(frame, "npu-0")[1] == "..?....."
    assert row(frame, "npu-1")[1] == ".....?.."
    assert row(frame, "npu-9")[:2] == ("u", "")


def test_too_many_faults_are_counted_and_the_most_serious_ones_listed() -> None:
    replica = replica_of(80)
    for name in list(replica.world.nodes):
        replica.say(name, *(a_fault(chip, FaultLevel.SUB_HEALTH) for chip in range(8)))
    replica.say("npu-41", a_fault(3))
    frame = framed(replica)
    assert len(frame.tables["faults"]) == MAX_FAULTS
    assert "npu-41/80E18402@3" in frame.tables["faults"]
    assert frame.now.fault_levels == {"SubHealthFault": 79 * 8, "SeparateNPU": 1}


def test_a_recovery_has_its_times_and_a_refusal_its_reason() -> None:
    replica = replica_of(2)
    replica.observe(recovery(1, phase="Recreating"), recovery(2, unit="ml/k"))
    frame = framed(replica)
    shown = frame.tables["recoveries"]["ml/j-001"]
    assert (shown.unit, shown.phase, shown.open, shown.pods) == ("ml/j", "Recreating", True, 2)
    assert shown.times.detected is not None
    assert not frame.tables["recoveries"]["ml/k-002"].open
    assert frame.now.open_recoveries == 1
    assert sum(one.count for one in frame.tables["holds"].values()) == len(
        replica.decided[1].holds if replica.decided else ()
    )


def test_a_drill_is_not_counted_as_something_broken() -> None:
    replica = replica_of(2)
    replica.say("npu-0", a_fault(3), a_fault(4, FaultLevel.RESTART_NPU, "1", origin="drill"))
    frame = framed(replica)
    assert (frame.now.fault_levels, frame.now.drill_faults) == ({"SeparateNPU": 1}, 1)
    assert len(frame.tables["faults"]) == 2


def test_an_incident_is_one_row_however_many_nodes_it_has() -> None:
    replica = replica_of(8)
    for name in list(replica.world.nodes):
        replica.observe(node(name, labels={"topology.kubernetes.io/rack": "rack-1"}))
        replica.say(name, a_fault(3))
    ((id_, shown),) = framed(replica).tables["incidents"].items()
    assert id_.startswith("domain-")
    assert (shown.kind, shown.nodes, shown.examples) == ("domain", 8, tuple(f"npu-{n}" for n in range(5)))
    assert "rack-1" in shown.why


def test_a_shadow_drill_says_at_once_what_it_would_cause() -> None:
    replica, framer = replica_of(3), Framer()
    framed(replica, framer)
    replica.drill("npu-1")
    (row,) = framed(replica, framer, full=False).tables["drills"].values()
    assert (row.node, row.state, row.would) == ("npu-1", "running", ["taint npu-1 SeparateNPU:NoSchedule"])


def test_a_heartbeat_changes_nothing_and_a_fault_only_its_node() -> None:
    replica, framer = replica_of(50), Framer()
    first = framed(replica, framer)
    for name in list(replica.world.nodes):
        replica.say(name)
    second = framed(replica, framer, full=False)
    assert delta(first, second) == Delta()
    replica.say("npu-07", a_fault(3))
    changed = delta(second, framed(replica, framer, full=False))
    assert list(changed.tables["nodes"].set) == ["npu-07"]
    assert list(changed.tables["faults"].set) == ["npu-07/80E18402@3"]


def test_a_frame_of_changes_is_the_frame_made_anew() -> None:
    replica, framer = replica_of(10), Framer()
    framed(replica, framer)
    replica.say("npu-3", a_fault(3))
    del replica.world.nodes["npu-4"]
    assert framed(replica, framer, full=False) == framed(replica)


ROWS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))
FRAMES = st.builds(
    lambda tables: Frame(Now(warden=None, brakes=None, fault_levels={}, drill_faults=0, open_recoveries=0), tables),  # type: ignore[arg-type]
    st.fixed_dictionaries({"nodes": ROWS, "faults": ROWS}),
)


@given(FRAMES | st.none(), FRAMES)
def test_the_older_frame_and_the_change_are_the_newer_frame(old: Frame | None, new: Frame) -> None:
    change = delta(old, new)
    tables: dict[str, dict[str, Any]] = {name: dict(table) for name, table in old.tables.items()} if old else {}
    for name, one in change.tables.items():
        table = tables.setdefault(name, {})
        assert set(one.gone) <= table.keys()
        for key in one.gone:
            del table[key]
        assert all(table.get(key) != row for key, row in one.set.items())
        table.update(one.set)
    assert tables == new.tables
