"""When a node is dead, silent, blind; what that asks for. Silence alone never kills."""

from __future__ import annotations

import pytest

from reconciler.core import fold
from reconciler.core.judge import condition_of, judge
from shared.model import FaultLevel
from tests.core.build import node
from tests.core.worlds import T0, a_fault, after, hear, report, world_of


@pytest.mark.parametrize(
    ("ready", "heard_s_ago", "not_ready_s", "dead", "silent"),
    [
        ("True", 1, None, False, False),
        ("True", 46, None, False, True),
        ("True", 44, None, False, False),
        ("Unknown", 46, 1, True, True),
        ("False", 46, 1, True, True),
        ("Unknown", 1, 59, False, False),
        ("Unknown", 1, 61, True, False),
    ],
)
def test_dead_takes_two_witnesses_or_a_minute(
    ready: str, heard_s_ago: float, not_ready_s: float | None, dead: bool, silent: bool
) -> None:
    world = world_of([node("a", ready=ready), node("b"), node("c")])
    hear(world, report("a"), at=after(-heard_s_ago))
    hear(world, report("b"), report("c"))
    if not_ready_s is not None:
        world.memory.not_ready_since["a"] = T0.mono - not_ready_s
    verdict = judge(world.snapshot(), "a", T0)
    assert (verdict.dead, verdict.silent) == (dead, silent)


def test_nobody_is_silent_in_a_leaders_first_minute() -> None:
    world = world_of([node("a", ready="Unknown")], led_s=59)
    assert not judge(world.snapshot(), "a", T0).silent
    assert judge(world.snapshot(), "a", after(2)).silent


def test_silence_says_nothing_while_reports_cannot_be_read() -> None:
    world = world_of([node("a", ready="Unknown"), node("b")])
    hear(world, report("a"), at=after(-1000))
    world.reports_ok = False
    fold.advance(world, T0)
    verdict = judge(world.snapshot(), "a", T0)
    assert (verdict.silent, verdict.dead, verdict.blind) == (False, False, True)


def test_silence_is_counted_anew_when_reports_are_back() -> None:
    world = world_of([node("a", ready="Unknown"), node("b"), node("c")])
    hear(world, report("a"), at=after(-1000))
    world.reports_ok = False
    fold.advance(world, T0)
    world.reports_ok = True
    fold.advance(world, after(1))
    assert not judge(world.snapshot(), "a", after(45)).silent
    assert judge(world.snapshot(), "a", after(47)).silent


def test_many_nodes_not_ready_at_once_are_not_believed() -> None:
    world = world_of([node("a", ready="Unknown"), node("b", ready="Unknown"), node("c"), node("d")])
    hear(world, *(report(name) for name in "abcd"))
    world.memory.not_ready_since |= {"a": T0.mono - 100, "b": T0.mono - 100}
    verdict = judge(world.snapshot(), "a", T0)
    assert (verdict.dead, verdict.storm) == (False, True)


def test_a_node_object_that_is_gone_is_dead_only_when_its_agent_is_silent_too() -> None:
    world = world_of([node("b")])
    hear(world, report("a"))
    assert not judge(world.snapshot(), "a", after(1)).dead
    assert judge(world.snapshot(), "a", after(46)).dead


@pytest.mark.parametrize(
    ("level", "effect"),
    [
        (FaultLevel.NOT_HANDLE, None),
        (FaultLevel.SUB_HEALTH, "PreferNoSchedule"),
        (FaultLevel.RESTART_REQUEST, "NoSchedule"),
        (FaultLevel.RESTART_BUSINESS, "NoSchedule"),
        (FaultLevel.FREE_RESTART_NPU, "NoSchedule"),
        (FaultLevel.RESTART_NPU, "NoSchedule"),
        (FaultLevel.PRE_SEPARATE_NPU, "NoSchedule"),
        (FaultLevel.SEPARATE_NPU, "NoSchedule"),
        (FaultLevel.MANUALLY_SEPARATE_NPU, "NoSchedule"),
    ],
)
def test_each_level_asks_for_its_taint(level: FaultLevel, effect: str | None) -> None:
    world = world_of([node("a")])
    hear(world, report("a", a_fault(level=level)))
    want = judge(world.snapshot(), "a", T0).want
    assert (want.effect if want else None) == effect
    assert want is None or want.value == level.value


def test_the_most_serious_of_several_faults_gives_the_taint_and_all_are_reasons() -> None:
    world = world_of([node("a")])
    weak, strong = a_fault(1, "80CB8009", FaultLevel.SUB_HEALTH), a_fault(2)
    hear(world, report("a", weak, strong))
    verdict = judge(world.snapshot(), "a", T0)
    assert verdict.want is not None
    assert verdict.want.value == "SeparateNPU"
    assert verdict.reasons == ("SeparateNPU 80E18402@2", "SubHealthFault 80CB8009@1")


def test_an_opted_out_node_is_left_alone() -> None:
    world = world_of([node("a", labels={"npuwarden.io/opt-out": "true"})])
    hear(world, report("a", a_fault()))
    verdict = judge(world.snapshot(), "a", T0)
    assert (verdict.want, verdict.dead, verdict.opted_out) == (None, False, True)


@pytest.mark.parametrize(
    ("level", "status"),
    [(FaultLevel.NOT_HANDLE, "True"), (FaultLevel.SUB_HEALTH, "True"), (FaultLevel.RESTART_REQUEST, "False")],
)
def test_the_condition_is_false_from_restart_request_up(level: FaultLevel, status: str) -> None:
    world = world_of([node("a")])
    hear(world, report("a", a_fault(level=level)))
    state = world.snapshot()
    condition = condition_of(judge(state, "a", T0), state.heard["a"])
    assert condition is not None
    assert condition[0] == status


def test_the_condition_is_unknown_when_silent_and_absent_before_anything_is_known() -> None:
    world = world_of([node("a")])
    state = world.snapshot()
    assert condition_of(judge(state, "a", T0), None) == (
        "Unknown",
        "AgentSilent",
        "no report from the agent: neither healthy nor faulty, taints stay",
    )
    young = world_of([node("a")], led_s=1).snapshot()
    assert condition_of(judge(young, "a", T0), None) is None
