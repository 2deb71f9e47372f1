"""Probes of counters and versions: what is new counts, and a restart of the agent forgets nothing."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agent.config import AgentConfig
from agent.detect.readings import ChipIdentity
from agent.limits import HbmEcc as HbmEccLimits
from agent.limits import Hccs as HccsLimits
from agent.limits import PortErrors as PortErrorsLimits
from agent.limits import ProbeLimits
from agent.probe import NoDriver, Probe, Sensors
from agent.probes import hbm_ecc, hccs, port_errors, versions
from agent.remembering import recall, remember
from agent.sensors.gauges import Measured
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from console.lab.host.chip import Ecc
from console.lab.host.state import Generation
from shared.aio import now
from shared.model import Instant
from tests.agent.conftest import MakeHost
from tests.agent.test_chip_probes import active, alter, denied, driver_of, made, net

pytestmark = pytest.mark.slow

LIMITS = AgentConfig(
    probes=ProbeLimits(
        port_errors=PortErrorsLimits(errors=100), hccs=HccsLimits(crc_errors=50), hbm_ecc=HbmEccLimits(isolated_pages=8)
    )
)


def restarted(probe: Probe, module: Any, sensors: Sensors, *, same_boot: bool = True) -> Probe:
    """The probe in the next process, told what this one knew."""
    kept = msgspec.json.decode(msgspec.json.encode(remember([probe])), type=dict[str, msgspec.Raw])
    after = made(module, sensors, LIMITS)
    recall([after], kept, now(), same_boot=same_boot)
    return after


def crc(host: SimHost, phy: int, *errors: int) -> None:
    alter(host, phy, lambda device: replace(device, hccs=replace(device.hccs, crc=list(errors))))


def double_errors(host: SimHost, phy: int, total: int) -> None:
    alter(host, phy, lambda device: replace(device, ecc=Ecc(hbm=(1, 0, 0, 0, total, 0, 0, 0, 0))))


async def test_new_bad_packets_count_and_those_of_a_busy_network_do_not(make_host: MakeHost) -> None:
    host = make_host(chips=3)
    alter(host, 1, net(stat={"mac_rx_fcs_err_pkt_num": 5000, "mac_rx_pfc_pkt_num": 1}))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = made(port_errors, sensors, LIMITS)
        assert active(await probe.look()) == []
        alter(host, 1, net(stat={"mac_rx_fcs_err_pkt_num": 5099, "mac_rx_pfc_pkt_num": 10**9}))
        alter(host, 2, net(stat={"roce_new_pkt_rty_num": 100}))
        seen = await probe.look()
        assert active(seen) == [("NW-PORT-ERRORS", 2)]
        assert [one.evidence for one in seen.chips or () if one.active] == [{"roce_new_pkt_rty_num": "100 new"}]
        after = restarted(probe, port_errors, sensors)
        alter(host, 1, net(stat={"mac_rx_fcs_err_pkt_num": 5100}))
        assert active(await after.look()) == [("NW-PORT-ERRORS", 1), ("NW-PORT-ERRORS", 2)]


async def test_a_port_whose_counters_cannot_be_read_is_unknown(host: SimHost) -> None:
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        alter(host, 4, lambda device: replace(device, enumerated=False))
        seen = await made(port_errors, sensors, LIMITS).look()
    assert (seen.trouble or "").startswith("chip 4: ")


async def test_transmission_errors_between_chips(host: SimHost) -> None:
    crc(host, 3, 1000, 0)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = made(hccs, sensors, LIMITS)
        assert active(await probe.look()) == []
        crc(host, 3, 1025, 24)
        assert active(await probe.look()) == []
        after = restarted(probe, hccs, sensors)
        crc(host, 3, 1025, 25)
        assert active(await after.look()) == [("NW-HCCS-ERRORS", 3)]


@pytest.mark.parametrize("same_boot", [True, False])
async def test_uncorrectable_errors_that_came_while_nobody_looked_are_new(host: SimHost, same_boot: bool) -> None:
    double_errors(host, 5, 3)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = made(hbm_ecc, sensors, LIMITS)
        await probe.look()
        double_errors(host, 5, 4)
        after = restarted(probe, hbm_ecc, sensors, same_boot=same_boot)
        assert active(await after.look()) == [("NW-HBM-UNCORRECTABLE", 5)]


# Versions.


@pytest.mark.parametrize("generation", ["910A", "910B", "A3", "950", "310P"])
async def test_the_firmware_of_every_generation(make_host: MakeHost, generation: Generation) -> None:
    host = make_host(generation, chips=2)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        seen = await made(versions, sensors).look()
    assert (seen.firmware, seen.trouble, active(seen)) == ("7.7.0.3.231", None, [])
    assert denied(seen) == {("NW-FIRMWARE", 0), ("NW-FIRMWARE", 1)}


async def test_firmware_that_does_not_fit_and_firmware_that_differs(host: SimHost) -> None:
    alter(host, 2, lambda device: replace(device, firmware="7.1.0.9.220", compatibility=2))
    alter(host, 6, lambda device: replace(device, compatibility=3))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = made(versions, sensors)
        seen = await probe.look()
        assert (seen.firmware, active(seen)) == ("7.7.0.3.231", [("NW-FIRMWARE", 2)])
        (misfit,) = [one for one in seen.chips or () if one.active]
        assert misfit.evidence == {"driver": "25.5.1", "firmware": "7.1.0.9.220"}
        assert ("NW-FIRMWARE", 6) not in denied(seen), "the driver does not know"
        (mixed,) = seen.node or ()
        assert (mixed.active, mixed.evidence) == (True, {"usual": "7.7.0.3.231", "chip 2": "7.1.0.9.220"})
        assert (await probe.look()).chips is None, "the same chips are not asked again so soon"
        host.drop(2)
        sensors.bus.look()
        await sensors.chips.poll()
        assert [one.active for one in (await probe.look()).node or ()] == [False], "other chips are"


async def test_a_driver_that_does_not_tell_says_nothing(host: SimHost) -> None:
    host.missing_symbols(["dcmi_get_device_compatibility", "dcmi_get_device_component_static_version"])
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        seen = await made(versions, sensors).look()
    assert (seen.chips, seen.node, seen.firmware, seen.trouble) == ((), (), None, None)


class HungOnce:
    """A driver that hangs at the first of two chips, in as many rounds as it is told."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.asked = rounds, 0

    async def measure(self, what: str) -> tuple[Measured, ...]:
        self.asked += 1
        why = "the driver hung" if self.asked <= self.rounds else ""
        return Measured(ChipIdentity(0), why=why), Measured(ChipIdentity(1))


async def test_chips_that_could_not_be_asked_stay_unknown_and_are_asked_again_at_the_next_look(tmp_path: Path) -> None:
    driver = HungOnce(rounds=2)
    probe = made(versions, Sensors(NoDriver(""), PciBus(tmp_path), gauges=driver))
    assert [(await probe.look()).partly for _ in range(4)] == [*["chip 0: the driver hung"] * 2, None, None]
    assert driver.asked == 3, "all of them are known now"


# Memory of probes.


class Forgetful:
    """A probe whose memory is of another form than it expects."""

    name, period_s, timeout_s = "forgetful", 1.0, 1.0

    def __init__(self) -> None:
        self.recalled: list[bytes] = []

    async def look(self) -> Any:
        raise NotImplementedError

    def memory(self) -> dict[str, int]:
        return {"a": 1}

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        self.recalled.append(kept)
        msgspec.json.decode(kept, type=int)


def test_memory_that_cannot_be_read_costs_that_probe_alone(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Forgetful(), Forgetful()
    second.name = "second"
    kept = remember([first, second])
    recall([first, second], kept, now(), same_boot=True)
    assert (first.recalled, second.recalled) == ([b'{"a":1}'], [b'{"a":1}'])
    assert "probe forgetful: what it knew before the restart cannot be read" in caplog.text
    recall([first], {}, now(), same_boot=True)
    assert len(first.recalled) == 1


class Buggy(Forgetful):
    name = "buggy"

    def __init__(self, *memories: Any) -> None:
        super().__init__()
        self.memories = iter(memories)

    def memory(self) -> Any:
        memory = next(self.memories)
        if isinstance(memory, Exception):
            raise memory
        return memory

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        raise KeyError("no such counter")


def test_a_bug_in_what_a_probe_remembers_costs_that_probe_alone_and_keeps_what_it_said_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = Forgetful()
    probes = [Buggy({"b": 1}, KeyError("bug"), object(), {"b": 2}), plain]
    rounds = [remember(probes)]
    for _ in range(3):
        rounds.append(remember(probes, rounds[-1]))
    assert [bytes(kept["buggy"]) for kept in rounds] == [b'{"b":1}', b'{"b":1}', b'{"b":1}', b'{"b":2}']
    assert all(bytes(kept["forgetful"]) == b'{"a":1}' for kept in rounds)
    assert "probe buggy: what it knows cannot be saved" in caplog.text
    assert remember([Buggy(KeyError("bug"))]) == {}
    recall(probes, rounds[-1], now(), same_boot=True)
    assert "probe buggy: what it knew before the restart cannot be read (KeyError" in caplog.text
    assert plain.recalled == [b'{"a":1}']
