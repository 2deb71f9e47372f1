"""Probes of chips and ports: gauges of the driver and what hccn_tool says, on simulated hosts."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.config import AgentConfig
from agent.decode.hccn_optical import Optical
from agent.limits import HbmEcc, LinkFlap, ProbeLimits, TemperaturePower
from agent.metrics import Metrics
from agent.probe import NoDriver, Observation, Probe, Sensors
from agent.probes import hbm_ecc, hccs, link_flap, net_health, optical, temperature_power
from agent.sensors.dcmi import DcmiSensor
from agent.sensors.hccn import Hccn, parse_link_downs, parse_net_health, parse_optical
from agent.sensors.pci import PciBus
from agent.sensors.process import Output, ToolError
from console.lab.host import SimHost
from console.lab.host.chip import Device, Ecc, Hccs, LinkChange
from tests.agent.conftest import MakeHost

pytestmark = pytest.mark.slow

LIMITS = AgentConfig(
    probes=ProbeLimits(hbm_ecc=HbmEcc(isolated_pages=8), temperature_power=TemperaturePower(chip_celsius=90, looks=1))
)
Change = Callable[[Device], Device]


def alter(host: SimHost, phy: int, change: Change) -> None:
    host.change(lambda s: replace(s, devices=[change(one) if one.phy == phy else one for one in s.devices]))


def net(**changes: Any) -> Change:
    return lambda device: replace(device, net=replace(device.net, **changes))


def module(**changes: Any) -> Change:
    return lambda device: net(optical=replace(device.net.optical, **changes))(device)


def active(seen: Observation) -> list[tuple[str, int]]:
    return [(one.code, one.phy) for one in seen.chips or () if one.active]


def denied(seen: Observation) -> set[tuple[str, int]]:
    return {(one.code, one.phy) for one in seen.chips or () if not one.active}


@asynccontextmanager
async def driver_of(host: SimHost, *, call_timeout_s: float = 5.0) -> AsyncIterator[Sensors]:
    if host.library is None:
        pytest.skip("no C compiler: the stand-in libdcmi.so cannot be built")
    bus = PciBus(host.sysfs)
    bus.look()
    sensor = DcmiSensor(host.library, bus=bus, metrics=Metrics(), call_timeout_s=call_timeout_s)
    try:
        yield Sensors(sensor, bus, Hccn(host.hccn_tool, lock=None), sensor)
    finally:
        await sensor.close()


def made(module: Any, sensors: Sensors, config: AgentConfig = LIMITS) -> Probe:
    probe: Probe | None = module.make(config, sensors)
    assert probe is not None
    return probe


# Gauges.


async def test_uncorrectable_errors_count_when_they_are_new_and_isolated_pages_from_the_limit_on(host: SimHost) -> None:
    alter(host, 1, lambda device: replace(device, ecc=Ecc((1, 0, 0, 9, 5, 0, 7, 0, 0))))
    alter(host, 6, lambda device: replace(device, ecc=Ecc((0, 0, 0, 9, 5, 0, 70, 0, 0))))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = made(hbm_ecc, sensors)
        assert denied(await probe.look()) == {("NW-HBM-ISOLATED", phy) for phy in range(8) if phy != 6}, "6: ECC is off"
        alter(host, 1, lambda device: replace(device, ecc=Ecc((1, 0, 0, 9, 6, 0, 8, 0, 0))))
        seen = await probe.look()
    assert active(seen) == [("NW-HBM-UNCORRECTABLE", 1), ("NW-HBM-ISOLATED", 1)]
    assert seen.trouble is None


async def test_heat_and_power_above_their_limits(host: SimHost) -> None:
    alter(host, 2, lambda device: replace(device, temp=90))
    alter(host, 3, lambda device: replace(device, hbm=replace(device.hbm, temp=105)))
    alter(host, 4, lambda device: replace(device, power_dw=10_000))
    alter(host, 5, lambda device: replace(device, temp=0x7FFD))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        seen = await made(temperature_power, sensors).look()
    assert active(seen) == [("NW-TEMPERATURE", 2), ("NW-TEMPERATURE", 3), ("NW-POWER", 4)]
    evidence = {(one.code, one.phy): one.evidence for one in seen.chips or ()}
    assert evidence["NW-TEMPERATURE", 2] == {"chip": "90 C, limit 90"}
    assert evidence["NW-POWER", 4] == {"power": "1000 W, limit 1000"}


async def test_links_between_chips(host: SimHost) -> None:
    alter(host, 7, lambda device: replace(device, hccs=replace(device.hccs, pcs_status=0x100)))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = made(hccs, sensors)
        first, second = await probe.look(), await probe.look()
    assert active(first) == []
    assert active(second) == [("NW-HCCS", 7)]
    assert len(denied(second)) == 7


async def test_what_a_generation_does_not_have_is_neither_well_nor_unknown(make_host: MakeHost) -> None:
    host = make_host("310P", chips=2)
    alter(host, 0, lambda device: replace(device, hccs=Hccs(pcs_status=1)))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        for probe in (made(hccs, sensors), made(hbm_ecc, sensors)):
            assert await probe.look() == Observation(chips=()), probe.name


async def test_gauges_of_the_950_are_read_through_its_own_functions(make_host: MakeHost) -> None:
    host = make_host("950", chips=2)
    alter(host, 1, lambda device: replace(device, temp=99))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        assert active(await made(temperature_power, sensors).look()) == [("NW-TEMPERATURE", 1)]


async def test_a_chip_whose_gauge_fails_is_unknown_and_the_others_are_judged(host: SimHost) -> None:
    alter(host, 2, lambda device: replace(device, temp=95))
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        host.error(1, -8009)
        seen = await made(temperature_power, sensors).look()
    assert active(seen) == [("NW-TEMPERATURE", 2)]
    assert not {phy for _, phy in denied(seen)} & {1}
    assert seen.trouble is not None
    assert seen.trouble.startswith("chip 1: the driver answered -8009")


async def test_a_gauge_that_hangs_costs_no_chip_its_health(host: SimHost) -> None:
    async with driver_of(host, call_timeout_s=0.5) as sensors:
        await sensors.chips.poll()
        host.hang(3, "dcmi_get_device_ecc_info")
        probe = made(hbm_ecc, sensors)
        seen = await probe.look()
        assert seen.trouble is not None
        assert "measuring ecc of chip 3 did not come back" in seen.trouble
        reading = await sensors.chips.poll()
        assert {one.chip.phy: one.health for one in reading.chips} == dict.fromkeys(range(8), 0)
        again = await probe.look()
    assert again.trouble == "chip 3: the driver hung when ecc was read; left alone"
    assert {phy for _, phy in denied(again)} == set(range(8)) - {3}


async def test_before_the_first_poll_there_is_no_chip_to_look_at(host: SimHost) -> None:
    async with driver_of(host) as sensors:
        assert await made(hbm_ecc, sensors).look() == Observation(chips=())


async def test_a_look_that_is_cut_off_spoils_no_later_answer(host: SimHost) -> None:
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        look = asyncio.create_task(made(hbm_ecc, sensors).look())
        await asyncio.sleep(0)
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)
        reading = await sensors.chips.poll()
    assert [one.health for one in reading.chips] == [0] * 8


# Ports.


@asynccontextmanager
async def ports_of(host: SimHost) -> AsyncIterator[Sensors]:
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        yield sensors


async def test_a_port_that_went_down_often_in_the_last_hour_flaps(host: SimHost) -> None:
    now = int(time.time())
    often = [LinkChange(now - ago, up) for ago in (600, 400, 200) for up in (False, True)]
    long_ago = [LinkChange(now - 90_000 - ago, up) for ago in (600, 400, 200) for up in (False, True)]
    alter(host, 1, net(link_log=often))
    alter(host, 2, net(link_log=long_ago))
    alter(host, 3, net(link_log=[]))
    async with ports_of(host) as sensors:
        seen = await made(link_flap, sensors, AgentConfig(probes=ProbeLimits(link_flap=LinkFlap(downs=3)))).look()
    assert active(seen) == [("NW-LINK-FLAP", 1)]
    assert len(denied(seen)) == 7


async def test_network_health_counts_at_the_second_look_and_no_answer_is_unknown(host: SimHost) -> None:
    for phy, word in {1: 3, 2: 6, 3: 7}.items():
        alter(host, phy, net(net_health=word))
    async with ports_of(host) as sensors:
        probe = made(net_health, sensors)
        await probe.look()
        seen = await probe.look()
    assert active(seen) == [("NW-NET-HEALTH", 1)]
    assert denied(seen) == {("NW-NET-HEALTH", phy) for phy in (0, 2, 4, 5, 6, 7)}
    assert seen.trouble == "chip 3: net health status Thread error"


async def test_optical_modules(host: SimHost) -> None:
    alter(host, 1, module(rx=(1.0, 0.01, 1.0, 1.0)))
    alter(host, 2, module(present=False))
    alter(host, 3, module(los=(0, 0xFF)))
    async with ports_of(host) as sensors:
        probe = made(optical, sensors)
        assert active(await probe.look()) == [("NW-OPTICAL-ABSENT", 2)]
        alter(host, 3, module(los=(0, 0x0F)))
        seen = await probe.look()
        assert active(seen) == [("NW-OPTICAL-POWER", 1), ("NW-OPTICAL-ABSENT", 2), ("NW-OPTICAL-SIGNAL", 3)]
        evidence = {one.code: one.evidence for one in seen.chips or () if one.active}
        assert evidence["NW-OPTICAL-POWER"] == {"rx1": "0.01 mW, limits 0.1445 to 3.5481"}
        assert evidence["NW-OPTICAL-SIGNAL"] == {"flags": "Rx Los Flag 0xf"}
        assert active(await probe.look()) == [("NW-OPTICAL-POWER", 1), ("NW-OPTICAL-ABSENT", 2)], "no new edge"


async def test_what_the_tool_could_not_read_of_a_module_is_neither_good_nor_bad(host: SimHost) -> None:
    host.hccn_tool.write_text("#!/bin/sh\nprintf 'present : present\\nRx Power0 : NA\\nRx Los Flag : NA\\n'\n")
    async with ports_of(host) as sensors:
        seen = await made(optical, sensors).look()
    assert (active(seen), denied(seen)) == ([], {("NW-OPTICAL-ABSENT", phy) for phy in range(8)})


async def test_a_module_that_is_not_there_is_no_more_than_absent(host: SimHost) -> None:
    rows = ("present : not present", "Rx Power0 : 0.0 mW", "RxPower Low Thres : 0.1 mW", "RxPower High Thres : 3.5 mW")
    lines = "\n".join((*rows, "vendor serial number : SN1", "Rx Los Flag : 0xf"))
    host.hccn_tool.write_text(f"#!/bin/sh\ncat << END\n{lines}\nEND\n")
    async with ports_of(host) as sensors:
        probe = made(optical, sensors)
        for seen in (await probe.look(), await probe.look()):
            assert active(seen) == [("NW-OPTICAL-ABSENT", phy) for phy in range(8)]
            assert len(denied(seen)) == 16


async def test_a_tool_that_fails_is_unknown_for_every_probe_of_ports(host: SimHost) -> None:
    host.hccn_tool.write_text("#!/bin/sh\necho 'I2c is busy. Please try again.' >&2; exit 1\n")
    host.hccn_tool.chmod(0o755)
    async with ports_of(host) as sensors:
        for probe in (made(link_flap, sensors), made(net_health, sensors), made(optical, sensors)):
            seen = await probe.look()
            assert seen.chips == (), probe.name
            assert seen.trouble is not None
            assert "I2c is busy" in seen.trouble
            assert seen.trouble.endswith("and 5 more")


def test_without_driver_library_or_tool_there_is_nothing_to_probe(tmp_path: Path) -> None:
    bare = Sensors(NoDriver("none"), PciBus(tmp_path))
    for one in (hbm_ecc, temperature_power, hccs, link_flap, net_health, optical):
        assert one.make(AgentConfig(), bare) is None


# What the tool prints.


def printed(*lines: str, code: int = 0) -> Output:
    return Output(code, "\n".join(lines) + "\n", "")


NOW = "Wed Aug  2 03:36:43 2023"


def history(now: str, *records: str) -> Output:
    return printed(
        *(
            f"[devid 4]{line}"
            for line in (f"current time : {now}", "link up count : 2", "link change records :", *records)
        )
    )


def test_ages_in_the_link_history_are_counted_from_the_tools_own_clock() -> None:
    downs = parse_link_downs(
        history(
            NOW,
            "    Wed Aug  2 03:36:33 2023    LINK DOWN",
            "    Tue Aug  1 03:36:43 2023    LINK UP",
            "    Tue Aug  1 03:36:43 2023    LINK DOWN",
        )
    )
    assert [(down.stamp, down.ago_s) for down in downs] == [
        ("2023-08-02T03:36:33", 10.0),
        ("2023-08-01T03:36:43", 86400.0),
    ]


@pytest.mark.parametrize(
    ("parse", "output"),
    [
        pytest.param(parse_link_downs, history("not a time"), id="no time"),
        pytest.param(
            parse_link_downs, history(NOW, "    Tue Foo  1 03:36:43 2023    LINK DOWN"), id="a time of no month"
        ),
        pytest.param(parse_link_downs, Output(0, history(NOW).out[:60], ""), id="the records are missing"),
        pytest.param(parse_link_downs, printed("Command unsupported"), id="no history"),
        pytest.param(
            parse_net_health, printed("net health status: Fault", "Command execute failed!"), id="an error, ended well"
        ),
        pytest.param(parse_net_health, printed("net health status: "), id="no word"),
        pytest.param(parse_net_health, printed("net health status: Fault", code=3), id="an error in spite of a word"),
        pytest.param(parse_optical, printed("optical info:"), id="no module block"),
        pytest.param(parse_optical, printed("present : get failed"), id="presence unknown"),
    ],
)
def test_output_that_is_no_answer_is_an_error(parse: Callable[[Output], object], output: Output) -> None:
    with pytest.raises(ToolError):
        parse(output)


def test_a_module_with_two_lanes_and_no_limits_of_its_own_says_nothing_of_limits() -> None:
    found = parse_optical(
        printed(
            "present : present",
            "Tx Power0 : 9.9 mW",
            "Tx Power1 : NA",
            "TxPower High Thres : NA",
            "Tx Los Flag : NA",
            "Rx Los Flag : 0x00",
        )
    )
    assert [lane.tx_power_mw for lane in found.lanes] == [9.9, None]
    assert optical.out_of_limits(found) is None
    assert optical.flags_of(0, {0: found}) == {}, "one register was read"


@pytest.mark.parametrize(
    ("low", "high", "evidence"), [("1.0", "2.0", {"rx2": "9.9 mW, limits 1 to 2"}), ("2.0", "1.0", None)]
)
def test_a_lane_is_named_as_the_module_counts_and_limits_that_cannot_be_are_none(
    low: str, high: str, evidence: dict[str, str] | None
) -> None:
    found = parse_optical(
        printed(
            "present : present",
            "Rx Power1 : NA",
            "Rx Power2 : 9.9 mW",
            f"RxPower Low Thres : {low} mW",
            f"RxPower High Thres : {high} mW",
        )
    )
    assert optical.out_of_limits(found) == evidence


def test_a_build_that_only_says_that_there_is_no_module() -> None:
    assert not parse_optical(Output(1, "Optical module is not present.\n", "")).present


def test_both_dies_of_a_card_share_the_flags_of_their_module() -> None:
    first = Optical(present=True, serial="SN1", rx_los=1)
    second, other = Optical(present=True, serial="SN1", rx_los=0), Optical(present=True, serial="SN2")
    modules = {0: first, 8: second, 1: other}
    assert [bool(optical.flags_of(phy, modules)) for phy in modules] == [True, True, False]
