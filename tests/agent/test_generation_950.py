"""The 950: it is read through functions of its own, by driver and tools, and its ports are UB ports."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from agent import probes
from agent.config import AgentConfig, Paths
from agent.detect.readings import ChipEvent
from agent.metrics import Metrics
from agent.probe import Sensors
from agent.probes import ub_ports
from agent.sensors.dcmi import DcmiSensor
from agent.sensors.events import EventStream
from agent.sensors.gauges import UbPorts
from agent.sensors.hccn import Hccn, parse_ub_ports
from agent.sensors.npu_smi import NpuSmi
from agent.sensors.pci import PciBus
from agent.sensors.process import Output, ToolError
from console.lab.host import SimHost
from console.lab.host.chip import Ub
from console.lab.host.state import DriverRule
from shared.aio import running
from tests.agent.conftest import MakeHost
from tests.agent.test_chip_probes import active, alter, denied, driver_of, made
from tests.waiting import eventually

pytestmark = pytest.mark.slow

NO_SUCH_CALL = DriverRule(ret=-8255)


@pytest.fixture
def host_950(make_host: MakeHost) -> SimHost:
    host = make_host("950", chips=4)
    if host.library is None:
        pytest.skip("no C compiler: the stand-in libdcmi.so cannot be built")
    return host


def with_ports(host: SimHost, phy: int, *ports: int, needed: bool = True) -> None:
    alter(host, phy, lambda device: replace(device, ub=Ub(needed=needed, ports=list(ports))))


async def test_chips_have_their_physical_id_address_and_die(host_950: SimHost) -> None:
    async with driver_of(host_950) as sensors:
        reading = await sensors.chips.poll()
    devices = {device.phy: device for device in host_950.state().devices}
    assert {one.chip.phy: one.chip.pci for one in reading.chips} == {
        phy: device.pci.address.upper() for phy, device in devices.items()
    }
    assert [(one.chip.die or "")[:8] for one in reading.chips] == [f"{d.die.n[0]:08X}" for d in devices.values()]


async def test_every_function_that_an_older_library_lacks_costs_its_own_answer_alone(host_950: SimHost) -> None:
    host_950.missing_symbols(
        [
            "dcmiv2_get_device_pcie_info",
            "dcmiv2_get_device_die_id",
            "dcmiv2_get_driver_version",
            "dcmiv2_get_device_chip_info",
        ]
    )
    async with driver_of(host_950) as sensors:
        reading = await sensors.chips.poll()
        assert [(one.health, one.codes, one.chip.die) for one in reading.chips] == [(0, (), None)] * 4
        assert sensors.chips.enumeration.driver is None


@pytest.mark.parametrize(("ret", "health"), [(-8012, None), (-8009, None), (-8255, None)])
async def test_the_return_code_counts_before_the_value(host_950: SimHost, ret: int, health: int | None) -> None:
    async with driver_of(host_950) as sensors:
        host_950.error(2, ret)
        reading = {one.chip.phy: one for one in (await sensors.chips.poll()).chips}
    assert (reading[2].health, reading[2].codes, reading[2].error) == (health, None, ret)
    assert reading[1].health == 0


async def test_a_chip_that_vanished_is_missing_from_a_fresh_enumeration(host_950: SimHost) -> None:
    async with driver_of(host_950) as sensors:
        await sensors.chips.poll()
        host_950.drop(1)
        sensors.bus.look()
        reading = await sensors.chips.poll()
    assert reading.fresh
    assert [one.chip.phy for one in reading.chips] == [0, 2, 3]


async def test_fault_events_arrive(host_950: SimHost) -> None:
    heard: list[ChipEvent] = []
    gaps = asyncio.Event()

    def take(events: Sequence[ChipEvent]) -> None:
        heard.extend(events)

    assert host_950.library is not None
    stream = EventStream(host_950.library, on_events=take, on_gap=gaps.set, metrics=Metrics())
    async with running(stream.run()):
        await eventually("the subscription", lambda: stream.subscribed, timeout_s=20)
        host_950.occur(3, "81B18603")
        host_950.recover(3, "81B18603")
        await eventually("two events", lambda: len(heard) == 2)
    assert [(one.phy, one.code, one.assertion) for one in heard] == [
        (3, "81B18603", "occur"),
        (3, "81B18603", "recover"),
    ]


async def test_by_the_tool_alone_its_chips_are_read_too(host_950: SimHost) -> None:
    bus = PciBus(host_950.sysfs)
    bus.look()
    host_950.occur(2, "80E01801")
    reading = await NpuSmi(host_950.npu_smi, bus=bus, lock=None).poll()
    assert reading.silent is None
    assert {one.chip.phy: one.codes for one in reading.chips} == {0: (), 1: (), 2: ("80E01801",), 3: ()}


def test_no_probe_asks_in_the_dialect_of_the_others(host_950: SimHost) -> None:
    """It would be blind for ever on a healthy host."""
    bus = PciBus(host_950.sysfs)
    bus.look()
    assert host_950.library is not None
    driver = DcmiSensor(host_950.library, bus=bus, metrics=Metrics())
    sensors = Sensors(driver, bus, Hccn(host_950.hccn_tool, lock=None), driver)
    nothing = str(host_950.directory / "nothing")
    config = AgentConfig(paths=Paths(sysfs=str(host_950.sysfs), kubelet_dir=nothing, kmsg=nothing))
    names = {probe.name for probe in probes.load(config, sensors)}
    assert names >= {"ub_ports", "roce_ports", "link_flap", "net_health"}
    assert not names & {"link_state", "optical", "port_errors"}


# UB ports.


@pytest.mark.parametrize("by_driver", [True, False])
async def test_ub_ports_by_driver_and_by_tool(host_950: SimHost, by_driver: bool) -> None:
    with_ports(host_950, 0, 0, 0, 1, 3, 2)
    with_ports(host_950, 1, 0, 3, 3)
    async with driver_of(host_950) as sensors:
        await sensors.chips.poll()
        probe = made(ub_ports, sensors if by_driver else replace(sensors, gauges=None))
        first, second = await probe.look(), await probe.look()
    assert active(first) == []
    assert sorted(active(second)) == [("NW-UB-CUT-OFF", 1), ("NW-UB-PORT", 0)]
    evidence = {one.phy: one.evidence for one in second.chips or () if one.active}
    assert evidence == {0: {"down": "3", "narrow": "4"}, 1: {"down": "1, 2"}}
    assert {("NW-UB-PORT", 2), ("NW-UB-CUT-OFF", 2), ("NW-UB-CUT-OFF", 0), ("NW-UB-PORT", 1)} <= denied(second)
    assert second.trouble is None


async def test_a_driver_that_cannot_tell_leaves_it_to_the_tool(host_950: SimHost) -> None:
    with_ports(host_950, 2, 0, 1, 3)
    host_950.change(
        lambda s: replace(s, faults=replace(s.faults, dcmi={"dcmiv2_get_ub_port_link_status": NO_SUCH_CALL}))
    )
    async with driver_of(host_950) as sensors:
        await sensors.chips.poll()
        probe = made(ub_ports, sensors)
        await probe.look()
        assert active(await probe.look()) == [("NW-UB-PORT", 2)]


async def test_a_chip_that_is_meant_to_have_no_links_is_well_and_all_without_is_a_warning(host_950: SimHost) -> None:
    with_ports(host_950, 0, 0, 3, 3, needed=False)
    async with driver_of(host_950) as sensors:
        await sensors.chips.poll()
        probe = made(ub_ports, sensors)
        await probe.look()
        assert active(await probe.look()) == []
        for phy in range(4):
            with_ports(host_950, phy, 0, 3, 3)
        await probe.look()
        seen = await probe.look()
    assert active(seen) == [("NW-UB-PORT", phy) for phy in range(4)]
    assert {one.evidence["without a link"] for one in seen.chips or () if one.active} == {"every chip of this host"}


async def test_ports_that_cannot_be_read_are_unknown(host_950: SimHost) -> None:
    async with driver_of(host_950) as sensors:
        await sensors.chips.poll()
        host_950.error(3, -8009)
        seen = await made(ub_ports, sensors).look()
    assert (seen.trouble or "").startswith("chip 3: the driver answered -8009")
    assert {phy for _, phy in denied(seen)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("link status : PARTIAL LINK\nport 4 : UP\nport 5 : DOWN\nport 6 : PARTIAL UP\n", UbPorts((5,), (6,))),
        ("link status : UP\nport 4 : UP\n", UbPorts()),
        ("link status : DOWN\nport 4 : DOWN\nport 5 : DOWN\n", UbPorts((4, 5), alone=True)),
        ("link status : PARTIAL LINK\nport 4 : UP\nport 5 : DO", None),
        ("link status : UP\n", None),
        ("Command unsupported on this device.\n", None),
    ],
)
def test_what_the_tool_says_of_ub_ports(text: str, expected: UbPorts | None) -> None:
    if expected is None:
        with pytest.raises(ToolError):
            parse_ub_ports(Output(0, text, ""))
    else:
        assert parse_ub_ports(Output(0, text, "")) == expected
