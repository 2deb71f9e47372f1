"""Which commands the agents are to get now. Pure: the same state gives the same commands with the same ids.

Whoever sends them sends each id once; a new leader may send one again, and the agent knows it by its id.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from reconciler.core import clock, drill_orders, drills
from reconciler.core.judge import silent_since
from reconciler.core.objects import Pod
from reconciler.core.recovery import Recovery
from reconciler.core.state import State
from reconciler.core.taints import record_of
from reconciler.core.triggers import chips_of
from reconciler.core.units import Index, Unit, method_of
from reconciler.workloads import unit_of
from shared.commands import Command, Peer, Peers, ReleaseSeparation, Reread, is_ipv4
from shared.model import FaultLevel, Instant, NodeReport
from shared.names import CODE_CARD_LOST, CODE_LINK_DOWN

PEERS_EACH = 4
SLOT_S = 600.0
"""A list of peers holds for a slot; in the next a node gets others, until it has had all."""
OVERLAP_S = 120.0
"""A list outlives its slot by so much: the next one is on its way to ten thousand nodes."""
REREAD_S = 60.0
JUST_FAILED_S = 120.0
RELEASE_S = 3600.0
"""A release that no agent has read by then is sent again, for as long as it is wanted."""
_NO_PORT = frozenset({CODE_LINK_DOWN, CODE_CARD_LOST})


def prompt(state: State, now: Instant, sent: Collection[str]) -> Iterator[Command]:
    """Commands that something has just happened for; those with an id in `sent` are left out."""
    yield from _rereads(state, now, sent)
    yield from _releases(state, now, sent)
    yield from drill_orders.commands(state, now, sent)


def peer_lists(state: State, now: Instant, sent: Collection[str]) -> Iterator[Command]:
    """This slot's peers of every node whose chips have ports, from among those of its kind.

    Nodes stand in a circle by name; a node's peers are those at four distances from it, and with each slot at the next
    four: after (n - 1) / 4 slots every pair has had its turn, in both directions.
    """
    slot = math.floor(now.wall / SLOT_S)
    waiting = [name for name in state.heard if _peers_id(slot, name) not in sent]
    if not waiting:
        return
    expires_at = (slot + 1) * SLOT_S + OVERLAP_S
    for circle in _circles(state, now).values():
        nodes = sorted(circle)
        for place, name in enumerate(nodes):
            number = _peers_id(slot, name)
            if number not in sent and len(nodes) > 1:
                chosen = (nodes[(place + far) % len(nodes)] for far in _distances(slot, len(nodes)))
                peers = tuple(Peer(node, circle[node]) for node in chosen)
                yield Command(number, name, expires_at, Peers(peers))


def _peers_id(slot: int, node: str) -> str:
    return f"peers/{slot}/{node}"


def _distances(slot: int, nodes: int) -> list[int]:
    """At most PEERS_EACH different ones of 1 .. nodes - 1."""
    others = nodes - 1
    return [1 + (slot * PEERS_EACH + step) % others for step in range(min(PEERS_EACH, others))]


def _circles(state: State, now: Instant) -> dict[str, dict[str, dict[int, str]]]:
    """By generation, the nodes that can ping and be pinged, with the addresses of their ports by physical id."""
    found: dict[str, dict[str, dict[int, str]]] = {}
    for name, heard in state.heard.items():
        node = state.nodes.get(name)
        if node is None or not node.ready or node.opted_out:
            continue
        if now.mono > silent_since(state, heard):
            continue
        ports = _ports(heard.report)
        if ports:
            found.setdefault(heard.report.machine.generation or "", {})[name] = ports
    return found


def _ports(report: NodeReport) -> dict[int, str]:
    """Ports that should answer: those known to be down would make others look for the fault at home."""
    down = {fault.chip for fault in report.faults if fault.code in _NO_PORT and not drills.shadow(fault)}
    return {chip.phy: chip.ip for chip in report.chips if chip.ip and chip.phy not in down and is_ipv4(chip.ip)}


def _rereads(state: State, now: Instant, sent: Collection[str]) -> Iterator[Command]:
    """A pod that has just Failed may show a chip fault that its node has not: its chips are looked at at once."""
    yield from _rereads_of_restarts(state, now, sent)
    failed = [pod for pod in state.pods.values() if pod.failed and f"reread/{pod.metadata.uid}" not in sent]
    index = Index(state)
    for pod in failed:
        if pod.node in state.heard and _just_failed(pod, now) and _concerns(pod, state, index):
            why = f"pod {pod.metadata.key} has Failed"
            body = Reread(why)
            yield Command(f"reread/{pod.metadata.uid}", str(pod.node), now.wall + REREAD_S, body)


def _rereads_of_restarts(state: State, now: Instant, sent: Collection[str]) -> Iterator[Command]:
    """The failed pod may be gone before anybody looks: the restart that it has caused still names it and its unit.

    Also one that has ended, as it does at once where its job is not to be saved.
    """
    restarts = [one for one in state.recoveries.values() if _restarts_failed(one, now)]
    there = {pod.metadata.uid for pod in state.pods.values()} if restarts else set()
    for recovery in restarts:
        for target in recovery.spec.targets:
            number, gone = f"reread/{target.uid}", target.uid not in there
            if gone and number not in sent and target.node in state.heard and target.chips != ():
                why = (
                    f"pod {recovery.metadata.namespace}/{target.pod} is restarted because a pod of its unit has Failed"
                )
                yield Command(number, str(target.node), now.wall + REREAD_S, Reread(why))


def _restarts_failed(recovery: Recovery, now: Instant) -> bool:
    opened = clock.parse(recovery.metadata.creation_timestamp)
    fresh = opened is None or now.wall - opened < JUST_FAILED_S
    return recovery.spec.cause.kind == "Software" and fresh


def _just_failed(pod: Pod, now: Instant) -> bool:
    """By the time at which the kubelet took back its readiness; a time nobody knows counts as now."""
    ready = pod.condition("Ready")
    at = clock.parse(ready.last_transition_time) if ready is not None else None
    return at is None or now.wall - at < JUST_FAILED_S


def _concerns(pod: Pod, state: State, index: Index) -> bool:
    """Whether it holds chips, and its unit has opted in."""
    if chips_of(pod, state.heard.get(str(pod.node))) == frozenset():
        return False
    unit = unit_of(pod, index)
    return isinstance(unit, Unit) and method_of(unit, index).name is not None


def _releases(state: State, now: Instant, sent: Collection[str]) -> Iterator[Command]:
    """What a person has released is still separated in the agent's memory. Read from the node's record, where it
    stands for as long as the separation is open: no leader can miss it."""
    period = math.floor(now.wall / RELEASE_S)
    for name, heard in state.heard.items():
        manual = [fault for fault in heard.report.faults if fault.level is FaultLevel.MANUALLY_SEPARATE_NPU]
        node = state.nodes.get(name)
        record = record_of(node) if manual and node is not None else None
        if record is None:
            continue
        for fault in manual:
            number = f"release/{record.session}/{fault.id}/{period}"
            if fault.id in record.released and isinstance(fault.chip, int) and number not in sent:
                body = ReleaseSeparation(fault.chip, fault.code, f"node {name} was released by a person")
                yield Command(number, name, now.wall + RELEASE_S, body)
