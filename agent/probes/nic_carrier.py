"""Carrier of the host's network cards, flaps, and bonds that run on fewer ports than they have (netlink).

Only cards that are switched on and have had a carrier since boot count: an empty socket is no fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.config import AgentConfig
from agent.counting import Rising
from agent.detect.readings import NodeFinding
from agent.own_thread import OwnThread
from agent.probe import CannotLook, Observation, Sensors
from agent.remembering import RemembersCounters
from agent.sensors.nics import Nic, read_nics


class NicCarrier(RemembersCounters):
    """`read` gives all interfaces and may raise OSError."""

    name = "nic_carrier"
    timeout_s = 5.0

    def __init__(self, period_s: float, read: Callable[[], list[Nic]], *, flaps: int, window_s: float) -> None:
        self.period_s = period_s
        self._read = read
        self._thread = OwnThread("netlink")
        self._rising = Rising(window_s=window_s, limit=flaps, began=time.monotonic())

    async def look(self) -> Observation:
        try:
            nics = await self._thread.run(self._read)
        except OSError as exc:
            raise CannotLook(f"network cards: {exc.strerror or exc}") from exc
        cards = [nic for nic in nics if nic.hardware]
        return Observation(node=(*carriers(cards), *self._flaps(cards, time.monotonic())))

    def _flaps(self, cards: list[Nic], mono: float) -> Iterable[NodeFinding]:
        for nic in cards:
            self._rising.see(nic.name, nic.downs, mono)
        judged = {nic.name: self._rising.judge(nic.name, mono) for nic in cards}
        flapping = {nic.name: f"{nic.downs} times down since boot" for nic in cards if judged[nic.name]}
        if flapping or None not in judged.values():
            yield NodeFinding("NW-NIC-FLAP", bool(flapping), evidence=flapping)


def carriers(cards: list[Nic]) -> tuple[NodeFinding, NodeFinding]:
    """Ports of a bond are told as the bond's trouble, all others as their own."""
    down = [nic for nic in cards if nic.enabled and nic.ups > 0 and not nic.carrier]
    alone = {nic.name: "no carrier" for nic in down if nic.master is None}
    ports: dict[str, list[str]] = {}
    for nic in down:
        if nic.master is not None:
            ports.setdefault(nic.master, []).append(nic.name)
    bonds = {bond: f"no carrier on {', '.join(sorted(names))}" for bond, names in ports.items()}
    return (
        NodeFinding("NW-NIC-DOWN", bool(alone), evidence=alone),
        NodeFinding("NW-BOND-DEGRADED", bool(bonds), evidence=bonds),
    )


def make(config: AgentConfig, sensors: Sensors) -> NicCarrier | None:
    sysfs = Path(config.paths.sysfs)
    if not (sysfs / "class/net").is_dir():
        return None
    limits = config.probes.nic_carrier
    return NicCarrier(config.poll.host_s, lambda: read_nics(sysfs), flaps=limits.flaps, window_s=limits.window_s)
