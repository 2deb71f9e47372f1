"""Which commands agents get: peers so that every pair has its turn, a look after a failed pod, a person's release."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import clock
from reconciler.core.commanding import JUST_FAILED_S, PEERS_EACH, RELEASE_S, SLOT_S, peer_lists, prompt
from reconciler.core.state import World
from shared.commands import Command, Peers, ReleaseSeparation, Reread
from shared.model import Chip, Fault, FaultLevel, Instant, Machine, NodeReport
from shared.names import ISOLATION_ANNOTATION, OPT_OUT_LABEL
from tests.core.build import job_with_pods, node, pod
from tests.core.journal import recovery
from tests.core.worlds import T0, a_fault, after, hear, report, world_of

MANUAL = a_fault(3, "80E18008", FaultLevel.MANUALLY_SEPARATE_NPU)


def ports(number: int, *, chips: int = 2) -> tuple[Chip, ...]:
    return tuple(Chip(phy, "ok", ip=f"10.{number}.0.{phy + 1}") for phy in range(chips))


def fleet(names: str | list[str], *, generation: str = "910B") -> World:
    world = world_of(node(name) for name in names)
    for number, name in enumerate(names):
        hear(world, with_generation(report(name, chips=ports(number)), generation))
    return world


def with_generation(said: NodeReport, generation: str) -> NodeReport:
    return msgspec.structs.replace(said, machine=Machine(generation))


def lists(world: World, at: Instant = T0, sent: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """Peers by node."""
    found = {}
    for command in peer_lists(world.snapshot(), at, sent):
        assert isinstance(command.body, Peers)
        found[command.node] = [peer.node for peer in command.body.peers]
    return found


@given(count=st.integers(min_value=2, max_value=30), first=st.integers(min_value=0, max_value=10**6))
def test_every_pair_has_its_turn_and_nobody_pings_himself(count: int, first: int) -> None:
    names = [f"n{number:02d}" for number in range(count)]
    world = fleet(names)
    pairs: set[tuple[str, str]] = set()
    slots = -(-(count - 1) // PEERS_EACH) + 1
    for slot in range(slots):
        at = Instant(T0.mono, (first + slot) * SLOT_S + 1)
        for name, peers in lists(world, at).items():
            assert 1 <= len(peers) <= PEERS_EACH
            assert len(set(peers)) == len(peers)
            pairs |= {(name, peer) for peer in peers}
    assert pairs == {(one, other) for one in names for other in names if one != other}


def test_a_list_holds_for_its_slot_and_has_the_addresses_by_chip() -> None:
    world = fleet("ab")
    (a, b) = sorted(peer_lists(world.snapshot(), T0, frozenset()), key=lambda command: command.node)
    assert isinstance(a.body, Peers)
    assert a.body.peers[0].addresses == {0: "10.1.0.1", 1: "10.1.0.2"}
    assert T0.wall + SLOT_S < a.expires_at + SLOT_S <= T0.wall + 3 * SLOT_S
    again = list(peer_lists(world.snapshot(), after(1), frozenset()))
    assert {command.id for command in again} == {a.id, b.id}
    assert list(peer_lists(world.snapshot(), after(1), {a.id, b.id})) == []
    hear(world, *(with_generation(report(name, seq=2, chips=ports(1)), "910B") for name in "ab"), at=after(SLOT_S))
    assert len(list(peer_lists(world.snapshot(), after(SLOT_S), {a.id, b.id}))) == 2


def test_peers_are_of_one_kind_of_machine() -> None:
    world = fleet("abcd")
    for name in "cd":
        hear(world, with_generation(report(name, seq=2, chips=ports(9)), "A3"))
    assert lists(world) == {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}


LEFT_OUT: dict[str, Any] = {
    "it is not Ready": lambda world: world.nodes.update(world_of([node("c", ready="False")]).nodes),
    "its agent is silent": lambda world: hear(world, report("c", seq=9, chips=ports(2)), at=after(-500)),
    "it is opted out": lambda world: world.nodes.update(world_of([node("c", labels={OPT_OUT_LABEL: "true"})]).nodes),
    "it has left": lambda world: world.nodes.pop("c"),
    "its chips have no ports": lambda world: hear(world, report("c", seq=9, chips=(Chip(0, "ok"),))),
    "its address is IPv6": lambda world: hear(world, report("c", seq=9, chips=(Chip(0, "ok", ip="2001:db8::1"),))),
    "its ports are down": lambda world: hear(
        world, report("c", a_fault(0, "81078603"), a_fault(1, "81078603"), seq=9, chips=ports(2))
    ),
}


@pytest.mark.parametrize("change", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_a_node_is_no_peer_when(change: Any) -> None:
    world = fleet("abc")
    change(world)
    found = lists(world)
    assert {peer for peers in found.values() for peer in peers} == {"a", "b"} - ({"a", "b"} - found.keys())
    assert all("c" not in peers for peers in found.values())


def test_a_lone_node_gets_no_list() -> None:
    assert lists(fleet("a")) == {}


def failed_job(*, labels: dict[str, str] | None = None, ago_s: float | None = 1) -> World:
    job, first, second = job_with_pods("j", ("a", "b"), labels=labels)
    first["status"]["phase"] = "Failed"
    first["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    if ago_s is not None:
        first["status"]["conditions"][0]["lastTransitionTime"] = clock.seconds(T0.wall - ago_s)
    world = world_of([node("a"), node("b"), job, first, second])
    hear(world, report("a"), report("b"))
    return world


def prompted(world: World, sent: frozenset[str] = frozenset(), at: Instant = T0) -> list[Command]:
    return list(prompt(world.snapshot(), at, sent))


def test_a_pod_that_has_just_failed_has_its_node_looked_at_once() -> None:
    world = failed_job()
    (command,) = prompted(world)
    assert (command.node, command.kind) == ("a", "reread")
    assert isinstance(command.body, Reread)
    assert "ml/j-master-0" in command.body.why
    assert command.expires_at > T0.wall
    assert prompted(world, frozenset({command.id})) == []
    assert prompted(world, at=after(1))[0].id == command.id


@pytest.mark.parametrize(
    ("kind", "ago_s", "phase", "nodes"),
    [
        ("Software", 5, "Deleting", ["a", "b"]),
        ("Software", JUST_FAILED_S + 1, "Deleting", []),
        ("Software", 5, "OwnerTerminal", ["a", "b"]),
        ("Software", 5, "Recovered", ["a", "b"]),
        ("Hardware", 5, "Deleting", []),
    ],
)
def test_failed_pods_that_are_already_gone_are_known_by_their_restart(
    kind: str, ago_s: float, phase: str, nodes: list[str]
) -> None:
    restart = recovery(0, phase=phase)
    restart["spec"]["cause"]["kind"] = kind
    restart["spec"]["targets"] = [{"pod": f"j-{name}", "uid": f"uid-{name}", "node": name} for name in "ab"]
    restart["metadata"]["creationTimestamp"] = clock.seconds(T0.wall - ago_s)
    world = world_of([node("a"), node("b"), restart])
    hear(world, report("a"), report("b"))
    commands = prompted(world)
    assert [command.node for command in commands] == nodes
    assert prompted(world, frozenset(command.id for command in commands)) == []


def test_a_failure_of_unknown_age_counts_as_new() -> None:
    assert len(prompted(failed_job(ago_s=None))) == 1


@pytest.mark.parametrize(
    "world",
    [
        failed_job(labels={}),
        failed_job(labels={"fault-scheduling": "off"}),
        failed_job(ago_s=JUST_FAILED_S + 1),
        world_of([node("a"), pod("bare", "a", None, phase="Failed")]),
    ],
    ids=["no label", "off", "long ago", "a bare pod"],
)
def test_nobody_is_asked_for(world: World) -> None:
    hear(world, report("a", seq=2))
    assert prompted(world) == []


def test_a_node_without_an_agent_is_asked_for_nothing() -> None:
    world = failed_job()
    world.heard.clear()
    assert prompted(world) == []


def released(*faults: Fault, ids: str) -> World:
    annotated = node("a")
    record = f'{{"session": "s7", "since": "2026-01-01T00:00:00Z", "by": "operator", "released": [{ids}]}}'
    annotated["metadata"]["annotations"] = {ISOLATION_ANNOTATION: record}
    world = world_of([annotated])
    hear(world, report("a", *faults))
    return world


def test_what_a_person_released_is_released_in_the_agents_memory_too() -> None:
    world = released(MANUAL, a_fault(), ids=f'"{MANUAL.id}", "80E18402@3"')
    (command,) = prompted(world)
    assert command.body == ReleaseSeparation(3, "80E18008", "node a was released by a person")
    assert prompted(world, frozenset({command.id})) == []
    (later,) = prompted(world, frozenset({command.id}), after(RELEASE_S))
    assert later.id != command.id, "an agent that was away for an hour is told again"


def test_a_separation_that_nobody_released_stays() -> None:
    assert prompted(released(MANUAL, ids='"80E18402@3"')) == []
    assert prompted(released(a_fault(), ids='"80E18402@3"')) == [], "no other level is the agent's to release"
