"""The chain of evidence: what was read, found, decided and refused, in that order, and what comes next."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reconciler.core import clock
from reconciler.core.chain import Link
from reconciler.core.chain_units import about_node, about_pods, about_unit
from reconciler.core.next_steps import next_of_reason, next_of_recovery, reasons
from reconciler.core.objects import Meta
from reconciler.core.plan import plan
from reconciler.core.policy import LevelOverride, Observe, Policy
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Times, WorkloadRef
from reconciler.core.state import World
from reconciler.core.taints import MANUAL
from shared.model import FaultLevel, Unknown
from shared.names import ISOLATE_ANNOTATION, ISOLATION_ANNOTATION, TAINT_KEY
from tests.core.build import job_with_pods, node, pod
from tests.core.worlds import T0, a_fault, after, decide, hear, report, world_of

NODES = [node(name) for name in "abcd"]
RECORD = {"session": "s", "since": "2027-01-15T07:50:00Z", "reasons": ["SeparateNPU 80E18402@3"]}


def job(policy: Policy | None = None, **labels: str) -> World:
    wanted = {"fault-scheduling": "force", **{key.replace("_", "-"): value for key, value in labels.items()}}
    world = world_of([*NODES, *job_with_pods("j", ("a", "b"), labels=wanted)], policy=policy)
    hear(world, *(report(name) for name in "abcd"))
    return world


def chain(world: World, name: str = "a", at_s: float = 0.0) -> list[Link]:
    now = after(at_s)
    decide(world, now)
    state = world.snapshot()
    return about_node(state, plan(state, now), name, now)


def said(links: list[Link], step: str) -> str:
    return "\n".join(f"{link.about}: {link.says} [{link.reason}]" for link in links if link.step == step)


def test_a_fault_is_followed_from_the_reading_to_what_comes_next() -> None:
    world = job()
    hear(world, report("a", a_fault(), seq=2))
    links = chain(world)
    steps = list(dict.fromkeys(link.step for link in links))
    assert steps == ["reading", "finding", "level", "rule", "isolation", "decision", "unit"]
    assert "chip 3 of a: code 80E18402" in said(links, "reading")
    assert "80E18402@3" in said(links, "finding")
    assert "confirmed by the driver" in said(links, "finding")
    assert "SeparateNPU" in said(links, "level")
    assert "the default of SeparateNPU: taint NoSchedule, pods now" in said(links, "rule")
    assert "does not stand" in said(links, "isolation")
    assert "being done now: Isolate" in said(links, "decision")
    assert "j-master-0, j-worker-0 restart together" in said(links, "unit")
    assert next(link.at for link in links if "code" in link.says) == clock.rfc3339(T0.wall)


def test_a_node_that_is_well_has_readings_and_nothing_else_to_tell() -> None:
    links = chain(job())
    assert {link.step for link in links} <= {"reading", "isolation", "decision"}
    assert said(links, "decision").count("SetCondition") == said(links, "decision").count("being done")


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (
            Policy(levels={FaultLevel.SEPARATE_NPU: LevelOverride(reschedule="never")}),
            "levels.SeparateNPU of policy.toml: taint NoSchedule, pods never",
        ),
        (Policy(observe=Observe(codes=("80E18402",))), "by policy only watched"),
    ],
)
def test_the_rule_says_whose_it_is(policy: Policy, rule: str) -> None:
    world = job(policy)
    hear(world, report("a", a_fault(), seq=2))
    assert rule in said(chain(world), "rule")


def test_a_level_that_the_catalogue_does_not_have_says_where_to_look() -> None:
    world = job()
    hear(world, report("a", a_fault(level=FaultLevel.SUB_HEALTH), seq=2))
    level = said(chain(world), "level")
    assert "SubHealthFault: the catalogue has SeparateNPU" in level
    assert "/v1/config" in level


def test_what_is_not_confirmed_or_not_seen_says_so() -> None:
    world = job()
    blind = Unknown(5, "hbm_ecc", T0.wall, "the driver does not answer")
    hear(world, msgspec.structs.replace(report("a", a_fault(confirmed=False), seq=2), unknown=(blind,)))
    links = chain(world)
    assert "not confirmed yet" in said(links, "finding")
    assert "chip 5 of a: hbm_ecc cannot see it: the driver does not answer" in said(links, "reading")


def test_a_refusal_names_its_word_and_what_ends_it() -> None:
    world = job(fault_scheduling="off")
    hear(world, report("a", a_fault(), seq=2))
    links = chain(world)
    refused = [link for link in links if link.reason == "label-off"]
    assert [link.step for link in refused] == ["decision", "next"]
    assert refused[1].says == next_of_reason("label-off")


def test_an_isolation_says_since_when_and_for_how_long() -> None:
    held = {**node("a")}
    held["spec"] = {"taints": [{"key": TAINT_KEY, "effect": "NoSchedule", "value": "SeparateNPU"}]}
    until = clock.rfc3339(T0.wall + 120)
    record = msgspec.json.encode({**RECORD, "hold_until": until}).decode()
    held["metadata"] = {**held["metadata"], "annotations": {ISOLATION_ANNOTATION: record}}
    world = world_of([held])
    hear(world, report("a"))
    links = chain(world)
    assert "taint SeparateNPU:NoSchedule stands, by warden: SeparateNPU 80E18402@3" in said(links, "isolation")
    due = next(link for link in links if link.step == "next" and link.due_in_s is not None)
    assert (due.due_in_s, due.at) == (120.0, until)


def tainted(value: str, by: str, **record: object) -> dict[str, Any]:
    held = {**node("a"), "spec": {"taints": [{"key": TAINT_KEY, "effect": "NoSchedule", "value": value}]}}
    noted = msgspec.json.encode({**RECORD, "by": by, **record}).decode()
    held["metadata"] = {**held["metadata"], "annotations": {ISOLATION_ANNOTATION: noted}}
    return held


def test_the_hold_down_has_one_end_and_one_thing_that_comes_next() -> None:
    world = world_of([tainted("SeparateNPU", "warden", hold_until=clock.rfc3339(T0.wall + 120))])
    hear(world, report("a"))
    links = chain(world, at_s=30)
    refusal = next(link for link in links if link.reason == "healed" and link.step == "decision")
    (due,) = [link for link in links if link.step == "next"]
    assert due.due_in_s == 90.0
    assert due.at is not None
    assert due.at in refusal.says, "the same end in both"
    assert not refusal.says.startswith("refused"), "it waits, nothing is refused"


def test_a_fault_that_is_back_ends_the_hold_down() -> None:
    world = world_of([tainted("SeparateNPU", "warden", hold_until=clock.rfc3339(T0.wall + 120))])
    hear(world, report("a", a_fault(), seq=2))
    (comes,) = [link.says for link in chain(world) if link.step == "next"]
    assert "stays isolated while that is so" in comes


def test_what_a_person_isolates_says_so_once_and_is_given_back_at_once() -> None:
    held = tainted(MANUAL, "operator", reasons=["operator: bad fan"])
    held["metadata"]["annotations"][ISOLATE_ANNOTATION] = "bad fan"
    world = world_of([held])
    hear(world, report("a"))
    links = chain(world)
    assert f"a: taint {MANUAL}:NoSchedule stands, by operator: bad fan [" in said(links, "isolation")
    assert "`npu-warden release a`, which gives it back at once" in said(links, "next")
    assert "longer" not in said(links, "next")


def test_pods_on_other_chips_are_not_concerned() -> None:
    owner, _ = job_with_pods("j", ("a",), labels={"fault-scheduling": "force"})
    world = world_of([node("a"), owner, pod("j-master-0", "a", owner, chips=(0,))])
    hear(world, report("a", a_fault(), seq=2))
    links = chain(world)
    assert "1 open fault\n" in said(links, "reading").replace(" []", "")
    (told,) = [link.says for link in links if link.reason == "chip-not-used" and link.step == "decision"]
    assert told.startswith("not concerned: ")


def test_a_persons_isolation_and_a_silent_agent_are_findings() -> None:
    mine = node("a")
    mine["metadata"]["annotations"] = {ISOLATE_ANNOTATION: "swap the fan"}
    world = world_of([mine, node("b", ready="False")])
    hear(world, report("a"), report("b"))
    assert "operator: swap the fan" in said(chain(world, "a"), "finding")
    hear(world, report("a", seq=2), at=after(200))
    silent = chain(world, "b", at_s=200)
    assert "agent silent" in said(silent, "finding")
    assert "not Ready" in said(silent, "reading")
    assert "3m20s ago" in said(silent, "reading")


def test_a_pod_without_an_owner_belongs_to_no_unit() -> None:
    world = world_of([node("a"), pod("alone", "a", None)])
    hear(world, report("a", a_fault()))
    decide(world)
    state = world.snapshot()
    links = about_pods(state, plan(state, T0), [state.pods["ml/alone"]], T0)
    told = next(link for link in links if link.step == "unit")
    assert told.reason == "no-owner"
    assert next_of_reason("no-owner") in [link.says for link in links]


def recovery(phase: str, level: str = "Pod", method: str = "force", times: Times | None = None) -> Recovery:
    owner = WorkloadRef("v1", "AscendJob", "j", "uid-j")
    spec = RecoverySpec(owner, "ml/j", level, method, Cause("Hardware", ("80E18402@3 on a",), ("a",)))
    return Recovery(Meta("r", namespace="ml"), spec, RecoveryStatus(phase=phase, times=times or Times()))


SEEN = clock.rfc3339(T0.wall)


@pytest.mark.parametrize(
    ("found", "what", "wait_s"),
    [
        (recovery("Isolating"), "taint has stood", None),
        (recovery("Deleting", times=Times(claimed=SEEN)), "forced", 10),
        (recovery("Deleting", method="grace", times=Times(deleted=SEEN)), "forced", 900),
        (recovery("Recreating", times=Times(gone=SEEN)), "bound", 60),
        (recovery("Recreating", level="Job", times=Times(gone=SEEN)), "bound", None),
        (recovery("Recreating", times=Times(bound=SEEN)), "Ready", 600),
        (recovery("WaitingForCapacity"), "room", None),
        (recovery("Exhausted"), "a person", None),
        (recovery("Recovered"), "over", None),
    ],
)
def test_what_a_recovery_waits_for(found: Recovery, what: str, wait_s: float | None) -> None:
    says, since, waits_s = next_of_recovery(found, Policy())
    assert what in says
    assert (waits_s, since) == (wait_s, SEEN if wait_s else since)


def test_a_unit_tells_its_open_recovery_and_when_its_patience_ends() -> None:
    world = job()
    world.recoveries["ml/r"] = recovery("Recreating", times=Times(gone=SEEN))
    state = world.snapshot()
    links = about_unit(state, plan(state, after(20)), "ml/j", after(20))
    assert "recovery r for 80E18402@3 on a: Recreating" in said(links, "decision")
    assert next(link.due_in_s for link in links if link.step == "next") == 40.0


def test_every_reason_of_the_page_has_what_comes_next() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reasons.md").read_text()
    words = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")} - {"word"}
    assert reasons() == words, "docs/reasons.md and reconciler/core/next_steps.py"
