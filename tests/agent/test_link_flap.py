"""Flaps of a port by the tool's own history, whose clock is the host's and may be set."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from agent.detect.readings import ChipIdentity
from agent.limits import LinkFlap as Limits
from agent.probe import NoDriver, Sensors
from agent.probes import link_flap
from agent.probes.link_flap import LinkFlap
from agent.sensors.hccn import Down, Hccn
from agent.sensors.pci import PciBus
from agent.sensors.worker import ChipFacts, Enumeration
from shared.model import Instant


class Port:
    """A port whose history is `downs`, as Unix times; `wall` is what the host's clock says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mono, self.wall = 10_000.0, 1_800_000_000.0
        self.downs: list[float] = []
        monkeypatch.setattr(link_flap, "time", SimpleNamespace(monotonic=lambda: self.mono))

    async def link_downs(self, _phy: int) -> tuple[Down, ...]:
        return tuple(Down(f"{at:.0f}", self.wall - at) for at in sorted(self.downs, reverse=True))

    def passes(self, seconds: float) -> None:
        self.mono, self.wall = self.mono + seconds, self.wall + seconds

    def probe(self) -> LinkFlap:
        chips = NoDriver("none")
        chips.enumeration = Enumeration({3: ChipFacts((3, 0), ChipIdentity(3))})
        sensors = Sensors(chips, PciBus(Path("/nowhere")))
        return LinkFlap(30.0, sensors, cast(Hccn, self), Limits(downs=3, window_s=3600))


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Port:
    return Port(monkeypatch)


async def flaps(probe: LinkFlap) -> bool:
    (finding,) = (await probe.look()).chips or ()
    return finding.active


async def test_a_clock_that_is_set_back_makes_old_flaps_no_new_ones(port: Port) -> None:
    port.downs = [port.wall - 20_000 - n for n in range(3)]
    probe = port.probe()
    assert not await flaps(probe)
    port.wall -= 19_000
    assert not await flaps(probe)
    again = port.probe()
    again.recall(msgspec.json.encode(probe.memory()), Instant(port.mono, port.wall), same_boot=True)
    assert not await flaps(again), "nor does a new process believe it"


async def test_a_clock_that_is_set_forward_hides_no_flaps_and_they_end_with_their_window(port: Port) -> None:
    port.downs = [port.wall - 100 - n for n in range(3)]
    probe = port.probe()
    assert await flaps(probe)
    port.wall += 50_000
    assert await flaps(probe)
    port.passes(3600)
    assert not await flaps(probe)


async def test_downs_of_the_same_second_count_each_and_a_record_from_the_future_does_not(port: Port) -> None:
    port.downs = [port.wall - 10] * 3
    assert await flaps(port.probe())
    port.downs = [port.wall + 10_000 + n for n in range(3)]
    assert not await flaps(port.probe())


async def test_after_a_reboot_the_tools_own_ages_count(port: Port) -> None:
    port.downs = [port.wall - 20_000 - n for n in range(3)]
    probe = port.probe()
    assert not await flaps(probe)
    kept = msgspec.json.encode(probe.memory())
    port.downs = [port.wall - 10 - n for n in range(3)]
    again = port.probe()
    again.recall(kept, Instant(5.0, port.wall), same_boot=False)
    assert await flaps(again)
