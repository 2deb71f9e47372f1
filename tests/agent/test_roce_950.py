"""RoCE ports of the 950: several for each chip, by die and port, with cables in some of them."""

import time
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from agent.config import AgentConfig
from agent.decode.hccn_dev_info import DevicePort, parse, parse_port
from agent.decode.text import ParseError
from agent.probe import NoDriver, Sensors
from agent.probes import link_flap, net_health, roce_ports
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from console.lab.host.chip import LinkChange, RocePort
from console.lab.host.state import DriverRule, ToolRule
from tests.agent.conftest import MakeHost
from tests.agent.test_chip_probes import active, alter, denied, driver_of, made, net

slow = pytest.mark.slow


def with_roce(host: SimHost, phy: int, *up: bool, unwired: Sequence[int] = (), downs: Sequence[int] = ()) -> None:
    """Ports 0, 1, ... with or without a link. downs: so many times each of them went down lately."""
    ports = [RocePort(port=n, up=is_, wired=n not in unwired, log=_downs(downs, n)) for n, is_ in enumerate(up)]
    alter(host, phy, lambda device: replace(device, roce=ports))


def _downs(counts: Sequence[int], port: int) -> list[LinkChange]:
    now = int(time.time())
    return [LinkChange(t=now - 60 * n, up=False) for n in range(counts[port] if port < len(counts) else 0)]


async def polled(sensors: Sensors) -> Sensors:
    await sensors.chips.poll()
    return sensors


@slow
async def test_a_chip_is_down_without_any_link_and_told_when_it_has_lost_some(make_host: MakeHost) -> None:
    host = make_host("950", chips=5)
    with_roce(host, 0, True, True)
    with_roce(host, 1, True, False)
    with_roce(host, 2, False, False)
    with_roce(host, 3, True, False, unwired=[1])
    async with driver_of(host) as sensors:
        probe = made(roce_ports, await polled(sensors))
        first, second = await probe.look(), await probe.look()
    assert {link.phy: link.up for link in second.links or ()} == {0: True, 1: True, 2: False, 3: True}, "4 has UB alone"
    assert active(first) == [], "a link that is trained is away for a moment"
    assert active(second) == [("NW-ROCE-PORT", 1)]
    assert denied(second) == {("NW-ROCE-PORT", phy) for phy in (0, 2, 3, 4)}
    (partial,) = [one for one in second.chips or () if one.active]
    assert partial.evidence == {"without a link": "1/1", "with": "1/0"}
    assert second.trouble is None


@slow
async def test_a_chip_whose_dead_ports_are_switched_off_is_down_no_more(make_host: MakeHost) -> None:
    host = make_host("950", chips=1)
    with_roce(host, 0, False, False)
    async with driver_of(host) as sensors:
        await polled(sensors)
        before = await made(roce_ports, sensors).look()
        with_roce(host, 0, False, False, unwired=[0, 1])
        after = await made(roce_ports, sensors).look()  # the agent has been restarted meanwhile
    assert [(link.phy, link.up) for link in before.links or ()] == [(0, False)]
    assert [(link.phy, link.up) for link in after.links or ()] == [(0, True)]


@slow
async def test_a_port_that_cannot_be_read_is_unknown_where_there_was_one(make_host: MakeHost) -> None:
    host = make_host("950", chips=2)
    with_roce(host, 0, True)
    async with driver_of(host) as sensors:
        probe = made(roce_ports, await polled(sensors))
        await probe.look()
        rule = {"dev_info": ToolRule(stderr="Command execute failed!\n", rc=1)}
        host.change(lambda s: replace(s, faults=replace(s.faults, hccn_tool=rule)))
        seen = await probe.look()
    assert [(link.phy, link.up) for link in seen.links or ()] == [(0, None)], "1 has none"
    assert "Command execute failed" in (seen.trouble or "")
    assert seen.chips == ()


@slow
async def test_a_tool_that_cannot_name_the_ports_leaves_them_unknown(make_host: MakeHost) -> None:
    host = make_host("950", chips=2)
    rule = {"dev_info": ToolRule(stderr="Command unsupported on this device.\n", rc=3)}
    host.change(lambda s: replace(s, faults=replace(s.faults, hccn_tool=rule)))
    async with driver_of(host) as sensors:
        seen = await made(roce_ports, await polled(sensors)).look()
        flaps = await made(link_flap, sensors).look()
    for one in (seen, flaps):
        assert (one.links or (), one.chips) == ((), ())
        assert "chip 1: this hccn_tool has no -dev_info" in (one.trouble or "")


@slow
async def test_the_port_that_flaps_most_decides(make_host: MakeHost) -> None:
    """Two ports that went down together, twice, do not make four."""
    host = make_host("950", chips=3)
    with_roce(host, 0, True, True, downs=[2, 2])
    with_roce(host, 1, True, True, downs=[0, 3])
    async with driver_of(host) as sensors:
        seen = await made(link_flap, await polled(sensors)).look()
    assert active(seen) == [("NW-LINK-FLAP", 1)]
    assert denied(seen) == {("NW-LINK-FLAP", 0), ("NW-LINK-FLAP", 2)}


@slow
async def test_net_health_is_the_drivers(make_host: MakeHost) -> None:
    host = make_host("950", chips=4)
    for phy, result in ((0, 0), (1, 3), (2, 6), (3, 7)):
        alter(host, phy, net(net_health=result))
    async with driver_of(host) as sensors:
        probe = made(net_health, await polled(sensors))
        first, second = await probe.look(), await probe.look()
        assert active(first) == []
        assert active(second) == [("NW-NET-HEALTH", 1)]
        assert denied(second) == {("NW-NET-HEALTH", 0), ("NW-NET-HEALTH", 2)}
        assert second.trouble == "chip 3: net health status Thread error"
        rule = {"dcmiv2_get_device_network_health": DriverRule(ret=-8255)}
        host.change(lambda s: replace(s, faults=replace(s.faults, dcmi=rule)))
        third = await probe.look()
    assert (third.chips, third.trouble) == ((), None), "this card cannot tell"


def test_by_the_tool_alone_nobody_knows_its_net_health(make_host: MakeHost) -> None:
    bus = PciBus(make_host("950", chips=2).sysfs)
    bus.look()
    assert net_health.make(AgentConfig(), Sensors(NoDriver(""), bus)) is None


# What the tool prints.

TABLE = """
+---------+---------+---------------------+-----------+-------------+------------+
| UDie ID | Port ID | Speed Ability(Gbps) | Port Type | Link Status | Media Type |
+---------+---------+---------------------+-----------+-------------+------------+
| 0       | 4       | 400                 | UB        | UP          | Electrical |
| 1       | 0       | 400                 | ETH       | DOWN        | Optical    |
| 1       | 1       | 400                 | ETH       | NA          | Optical    |
+---------+---------+---------------------+-----------+-------------+------------+
+-----------------+------------+
| Interface Name  | IP Address |
+-----------------+------------+
| end0v0          | 10.0.0.1   |
+-----------------+------------+
""".lstrip()
PORTS = [
    DevicePort(udie=0, port=4, kind="UB", up=True),
    DevicePort(udie=1, port=0, kind="ETH", up=False),
    DevicePort(udie=1, port=1, kind="ETH", up=None),
]


def test_the_ports_of_a_chip() -> None:
    assert parse(TABLE.splitlines()).ports == PORTS


@pytest.mark.parametrize("length", range(0, len(TABLE), 7))
def test_a_table_that_is_cut_is_whole_or_refused(length: int) -> None:
    try:
        assert parse(TABLE[:length].splitlines()).ports == PORTS
    except ParseError:
        assert length < TABLE.index("+-----------------+"), "the table of ports had been whole"


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("port_id: 0x4\nport_enable: on\n", True),
        ("port_enable: off\nport_link: unlink\n", False),
        ("port_id: 4\n", None),
    ],
)
def test_whether_a_port_is_wired(text: str, enabled: bool | None) -> None:
    if enabled is None:
        with pytest.raises(ParseError):
            parse_port(text.splitlines())
    else:
        assert parse_port(text.splitlines()).enabled is enabled
