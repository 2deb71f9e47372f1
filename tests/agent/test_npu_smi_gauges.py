"""Gauges on hosts without the library, by npu-smi: what it prints, and what its zeros are worth."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from agent import probes
from agent.config import AgentConfig, Paths
from agent.probe import CannotLook, Sensors
from agent.probes import hbm_ecc, hccs, temperature_power, versions
from agent.sensors.gauges import version
from agent.sensors.hccn import Hccn
from agent.sensors.npu_smi import NpuSmi
from agent.sensors.npu_smi_gauges import CHIPS_A_LOOK, NpuSmiGauges, hccs_counter_words, text_words
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from console.lab.host.chip import Ecc
from console.lab.host.state import DriverRule, Generation, Match
from tests.agent.conftest import MakeHost
from tests.agent.test_chip_probes import active, alter, denied, made

pytestmark = pytest.mark.slow


def sensors_of(host: SimHost) -> Sensors:
    bus = PciBus(host.sysfs)
    bus.look()
    smi = NpuSmi(host.npu_smi, bus=bus, lock=None)
    return Sensors(smi, bus, None, NpuSmiGauges(smi))


def fails(host: SimHost, function: str, phy: int) -> None:
    rule = {function: DriverRule(ret=-8009, match=Match(phy=phy))}
    host.change(lambda s: replace(s, faults=replace(s.faults, dcmi=rule)))


def test_the_probes_of_gauges_run_there(host: SimHost, tmp_path: Path) -> None:
    sensors = replace(sensors_of(host), hccn=Hccn(host.hccn_tool, lock=None))
    nothing = str(tmp_path / "nothing")
    names = {p.name for p in probes.load(AgentConfig(paths=Paths(kubelet_dir=nothing, kmsg=nothing)), sensors)}
    assert names >= {"hbm_ecc", "temperature_power", "hccs", "versions"}
    assert "chip_hang" not in names, "npu-smi prints 0 for an AICore use that it could not read"


async def test_before_the_first_poll_and_while_the_tool_fails_nobody_can_be_asked(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    sensors = sensors_of(host)
    with pytest.raises(CannotLook):
        await made(temperature_power, sensors).look()
    await sensors.chips.poll()
    host.npu_smi.write_text("#!/bin/sh\nexit 1\n")
    await sensors.chips.poll()
    seen = await made(temperature_power, sensors).look()
    assert (seen.chips, seen.trouble) == ((), None), "chip_health says why"


async def test_heat_and_power_are_those_of_the_table(make_host: MakeHost) -> None:
    host = make_host(chips=4)
    alter(host, 1, lambda device: replace(device, temp=95))
    alter(host, 2, lambda device: replace(device, power_dw=12_345))
    fails(host, "dcmi_get_device_temperature", 3)
    sensors = sensors_of(host)
    await sensors.chips.poll()
    seen = await made(temperature_power, sensors).look()
    assert active(seen) == [("NW-TEMPERATURE", 1), ("NW-POWER", 2)]
    assert ("NW-TEMPERATURE", 0) in denied(seen)
    assert ("NW-TEMPERATURE", 3) not in denied(seen), "0 degrees are no temperature"
    assert "chip 3: temperature: npu-smi prints 0" in (seen.trouble or "")


async def test_new_uncorrectable_errors_and_isolated_pages(make_host: MakeHost) -> None:
    host = make_host(chips=CHIPS_A_LOOK)
    alter(host, 1, lambda device: replace(device, ecc=Ecc((1, 0, 0, 9, 5, 0, 7, 0, 0))))
    sensors = sensors_of(host)
    await sensors.chips.poll()
    probe = made(hbm_ecc, sensors)
    assert denied(await probe.look()) == {("NW-HBM-ISOLATED", 0), ("NW-HBM-ISOLATED", 1)}
    alter(host, 1, lambda device: replace(device, ecc=Ecc((1, 0, 1, 9, 6, 0, 8, 0, 0))))
    seen = await probe.look()
    assert active(seen) == [("NW-HBM-UNCORRECTABLE", 1), ("NW-HBM-ISOLATED", 1)]


async def test_zeros_of_a_getter_that_fails_are_no_new_errors(make_host: MakeHost) -> None:
    """7, then 0 because it could not be read, then 7: nothing has happened."""
    host = make_host(chips=1)
    counts = Ecc((1, 0, 0, 9, 7, 0, 1, 0, 0))
    alter(host, 0, lambda device: replace(device, ecc=counts))
    sensors = sensors_of(host)
    await sensors.chips.poll()
    probe = made(hbm_ecc, sensors)
    await probe.look()
    alter(host, 0, lambda device: replace(device, ecc=Ecc()))
    seen = await probe.look()
    assert "prints 0 for it" in (seen.trouble or "")
    alter(host, 0, lambda device: replace(device, ecc=counts))
    assert active(await probe.look()) == []


async def test_zeros_beside_a_memory_that_cannot_be_read_are_no_counters(make_host: MakeHost) -> None:
    host = make_host(chips=1)
    fails(host, "dcmi_get_device_hbm_info", 0)
    sensors = sensors_of(host)
    await sensors.chips.poll()
    seen = await made(hbm_ecc, sensors).look()
    assert (seen.chips, "prints 0 for it" in (seen.trouble or "")) == ((), True)


async def test_a_chip_whose_counters_cannot_be_read_is_said_and_the_others_are_read(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    fails(host, "dcmi_get_device_ecc_info", 1)
    sensors = sensors_of(host)
    await sensors.chips.poll()
    seen = await made(hbm_ecc, sensors).look()
    assert (seen.trouble or "").startswith("chip 1: npu-smi: Failed to query")
    assert denied(seen) == {("NW-HBM-ISOLATED", 0)}


async def test_a_few_chips_at_a_time_and_each_of_them_in_turn(make_host: MakeHost) -> None:
    host = make_host("A3", chips=6)
    sensors = sensors_of(host)
    await sensors.chips.poll()
    probe = made(hbm_ecc, sensors)
    asked = [sorted(phy for code, phy in denied(await probe.look())) for _ in range(3)]
    assert sorted(phy for phys in asked for phy in phys) == list(range(6))
    assert {len(phys) for phys in asked} == {CHIPS_A_LOOK}


async def test_links_between_chips_and_their_errors(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    alter(host, 1, lambda device: replace(device, hccs=replace(device.hccs, pcs_status=0x300)))
    sensors = sensors_of(host)
    await sensors.chips.poll()
    probe = made(hccs, sensors)
    await probe.look()
    alter(host, 0, lambda device: replace(device, hccs=replace(device.hccs, crc=[60, 0, 60, 0, 0, 0, 0])))
    seen = await probe.look()
    assert sorted(active(seen)) == [("NW-HCCS", 1), ("NW-HCCS-ERRORS", 0)]
    assert ("NW-HCCS", 0) in denied(seen)


async def test_a_chip_without_such_links_says_nothing(make_host: MakeHost) -> None:
    sensors = sensors_of(make_host("910A", chips=2))
    await sensors.chips.poll()
    seen = await made(hccs, sensors).look()
    assert (seen.chips, seen.trouble) == ((), None)


@pytest.mark.parametrize("generation", ["910A", "910B", "A3", "950"])
async def test_firmware(make_host: MakeHost, generation: Generation) -> None:
    host = make_host(generation, chips=4)
    alter(host, 2, lambda device: replace(device, compatibility=2))
    sensors = sensors_of(host)
    await sensors.chips.poll()
    seen = await made(versions, sensors).look()
    assert (seen.firmware, seen.trouble) == ("7.7.0.3.231", None)
    assert ("NW-FIRMWARE", 2) in active(seen)
    assert ("NW-FIRMWARE", 0) in denied(seen)


async def test_versions_that_the_tool_does_not_know_say_nothing(make_host: MakeHost) -> None:
    host = make_host(chips=1)
    alter(host, 0, lambda device: replace(device, firmware="NA", compatibility=3))
    sensors = sensors_of(host)
    await sensors.chips.poll()
    seen = await made(versions, sensors).look()
    assert (seen.chips, seen.firmware, seen.trouble) == ((), None, None)


@pytest.mark.parametrize("text", ["7.1.0.7.220", "x" * 100, ""])
def test_a_version_in_words(text: str) -> None:
    assert version(text_words(text)) == (text[:63] or None)


def test_counters_in_words_are_no_longer_than_the_links_are_many() -> None:
    assert len(hccs_counter_words([1] * 40)) == len(hccs_counter_words([])) == 128
