"""Whom a port reaches: one silent peer is nobody's fault yet, all of them are the port's own."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding, ChipIdentity
from agent.metrics import Metrics
from agent.peer_book import PeerBook
from agent.probe import CannotLook, NoDriver, Observation, Sensors
from agent.probes import peers as peers_probe
from agent.probes.peers import MAX_PINGS, PATH, SILENT, Peers, doubt, verdict
from agent.sensors.dcmi import DcmiSensor
from agent.sensors.hccn import Hccn, parse_reached
from agent.sensors.pci import PciBus
from agent.sensors.process import Output, ToolError
from agent.sensors.worker import ChipFacts, Enumeration
from console.lab.host import SimHost
from shared.commands import Peer
from tests.agent.conftest import MakeHost

HOUR_S = 3600.0


def answers(*answered: bool) -> dict[str, bool]:
    return {f"p{number}": one for number, one in enumerate(answered)}


@pytest.mark.parametrize(
    ("answered", "asked", "said", "open_question"),
    [
        ((True,), 4, {SILENT: False, PATH: False}, False),
        ((True, True, True, True), 4, {SILENT: False, PATH: False}, False),
        ((False, True, True, True), 4, {SILENT: False}, True),
        ((False, False, True, True), 4, {SILENT: False, PATH: True}, False),
        ((False, False, False, True), 4, {SILENT: False, PATH: True}, False),
        ((False, False, False, False), 4, {SILENT: True, PATH: False}, False),
        ((False, False), 2, {SILENT: True, PATH: False}, False),
        ((False,), 1, {}, True),
        ((False, True), 2, {SILENT: False}, True),
        ((False, False), 4, {}, True),
        ((), 4, {}, False),
    ],
    ids=[
        *("first of four answers", "all answer", "one silent", "two silent", "three silent", "all silent"),
        *("both silent", "the only one is silent", "one of two is silent", "silent, and two could not be asked"),
        "nobody could be asked",
    ],
)
def test_what_a_round_says(answered: tuple[bool, ...], asked: int, said: dict[str, bool], open_question: bool) -> None:
    assert verdict(answers(*answered), asked=asked) == said
    assert (doubt(answers(*answered), asked=asked) is not None) == open_question


PING = "device 3 PING 192.0.2.33\n{replies}3 packets transmitted, {received} received, {lost}% packet loss\n"


@pytest.mark.parametrize(
    ("received", "code", "reached"),
    [(3, 0, True), (1, 0, True), (0, 0, False), (0, 1, False)],
)
def test_the_summary_of_a_ping_counts_whatever_the_exit_code(received: int, code: int, reached: bool) -> None:
    text = PING.format(replies="recv time out seq=0\n", received=received, lost=100 - received * 33)
    assert parse_reached(Output(code, text, "")) is reached


@pytest.mark.parametrize(
    "output",
    [
        Output(3, "", "Get device health status failed!"),
        Output(0, "hccn_tool is busy, please try again.\n", ""),
        Output(0, "device 3 PING 192.0.2.33\nrecv time out seq=0\n", ""),
        Output(0, PING.format(replies="", received=0, lost=0).replace("3 packets", "0 packets"), ""),
        Output(0, "", ""),
    ],
    ids=["an error", "busy", "cut off", "nothing was sent", "nothing"],
)
def test_a_ping_without_a_summary_says_nothing_of_the_peer(output: Output) -> None:
    with pytest.raises(ToolError):
        parse_reached(output)


def given(*nodes: str) -> tuple[Peer, ...]:
    return tuple(Peer(name, {0: f"192.0.2.{10 * n}", 1: f"192.0.2.{10 * n + 1}"}) for n, name in enumerate(nodes, 1))


class Bench:
    """A host of two chips whose ports reach everybody, and the probe."""

    def __init__(self, host: SimHost, sensors: Sensors) -> None:
        self.host, self.book = host, PeerBook()
        self.sensors = Sensors(sensors.chips, sensors.bus, sensors.hccn, peers=self.book)
        made = peers_probe.make(AgentConfig(), self.sensors)
        assert made is not None
        self.probe: Peers = made

    def give(self, *nodes: str, for_s: float = HOUR_S) -> None:
        self.book.give(given(*nodes), until=time.monotonic() + for_s)

    async def look(self) -> tuple[dict[tuple[int, str], bool], str | None]:
        seen = await self.probe.look()
        return found(seen), seen.partly


def found(seen: Observation) -> dict[tuple[int, str], bool]:
    return {(one.phy, one.code): one.active for one in seen.chips or ()}


@pytest.fixture
async def bench(make_host: MakeHost, metrics: Metrics) -> AsyncIterator[Bench]:
    host = make_host("910B", chips=2)
    if host.library is None:
        pytest.skip("no C compiler: the stand-in libdcmi.so cannot be built")
    bus = PciBus(host.sysfs)
    bus.look()
    sensor = DcmiSensor(host.library, bus=bus, metrics=metrics)
    await sensor.poll()
    yield Bench(host, Sensors(sensor, bus, Hccn(host.hccn_tool, lock=None)))
    await sensor.close()


WELL = {(phy, code): False for phy in (0, 1) for code in (SILENT, PATH)}


async def test_nobody_to_ping_is_no_look_and_no_unknown(bench: Bench) -> None:
    assert await bench.look() == ({}, None)
    bench.give("b", for_s=-1)
    assert await bench.look() == ({}, None)


async def test_ports_that_reach_their_peers_are_well(bench: Bench) -> None:
    bench.give("b", "c")
    assert await bench.look() == (WELL, None)
    assert await bench.look() == (WELL, None)


async def test_a_port_that_reaches_nobody_twice_is_at_fault_until_somebody_answers(bench: Bench) -> None:
    bench.give("b", "c", "d")
    bench.host.unreachable(1, "*")
    first, _ = await bench.look()
    assert (1, SILENT) not in first
    seen = await bench.probe.look()
    assert found(seen)[1, SILENT] is True
    assert found(seen)[0, SILENT] is False
    fault = next(one for one in seen.chips or () if one.code == SILENT and one.active)
    assert fault == ChipFinding(1, SILENT, True, fault.evidence)
    assert "192.0.2.11 (b)" in fault.evidence["silent"], "the port of the same number is asked"
    assert fault.evidence["asked"] == "3"
    bench.host.unreachable(1)
    assert await bench.look() == (WELL, None)


async def test_one_silent_peer_is_an_open_question(bench: Bench) -> None:
    bench.give("b", "c")
    await bench.look()
    bench.host.unreachable(None, "192.0.2.10", "192.0.2.11")
    looks = [await bench.look() for _ in range(4)]
    assert not any(active for seen, _ in looks for active in seen.values())
    assert any(why is not None and "192.0.2.1" in why for _, why in looks)


async def test_several_silent_peers_are_a_path_until_all_answer(bench: Bench) -> None:
    bench.give("b", "c", "d")
    bench.host.unreachable(0, "192.0.2.10", "192.0.2.20")
    await bench.look()
    seen, _ = await bench.look()
    assert seen[0, PATH] is True
    assert seen[0, SILENT] is False
    bench.host.unreachable(0)
    assert await bench.look() == (WELL, None)


async def test_a_tool_that_fails_is_no_silence(bench: Bench) -> None:
    bench.give("b", "c")
    bench.host.hccn_tool.write_text("#!/bin/sh\necho busy >&2\nexit 1\n")
    for _ in range(3):
        seen, why = await bench.look()
        assert seen == {}
        assert why is not None
        assert "busy" in why


async def test_a_port_at_fault_whose_peers_have_expired_is_unknown(bench: Bench) -> None:
    bench.give("b", "c")
    bench.host.unreachable(1, "*")
    await bench.look()
    bench.give("b", for_s=-1)
    with pytest.raises(CannotLook, match="expired"):
        await bench.look()


async def test_pings_of_one_round_are_bounded_and_the_rest_has_its_turn(tmp_path: Path) -> None:
    calls, tool = tmp_path / "calls", tmp_path / "hccn_tool"
    tool.write_text(f"#!/bin/sh\necho $2 >> {calls}\n")  # it says nothing, so every peer of every chip is asked
    tool.chmod(0o755)
    chips = NoDriver("none")
    chips.enumeration = Enumeration({n: ChipFacts((n, 0), ChipIdentity(n), ip=f"10.0.0.{n + 1}") for n in range(16)})
    book = PeerBook()
    names = ("b", "c", "d", "e")
    book.give(given(*names), until=time.monotonic() + HOUR_S)
    probe = peers_probe.make(AgentConfig(), Sensors(chips, PciBus(tmp_path), Hccn(tool, lock=None), peers=book))
    assert probe is not None
    await probe.look()
    assert calls.read_text().split() == [str(phy) for phy in range(MAX_PINGS // len(names)) for _ in names]
    for _ in range(3):
        await probe.look()
    assert set(calls.read_text().split()) == {str(phy) for phy in range(16)}


async def test_a_chip_without_an_address_pings_nobody(tmp_path: Path) -> None:
    chips = NoDriver("none")
    chips.enumeration = Enumeration({0: ChipFacts((0, 0), ChipIdentity(0))})
    book = PeerBook()
    book.give(given("b"), until=time.monotonic() + HOUR_S)
    tool = Hccn(tmp_path / "nothing", lock=None)
    probe = peers_probe.make(AgentConfig(), Sensors(chips, PciBus(tmp_path), tool, peers=book))
    assert probe is not None
    assert await probe.look() == Observation(chips=())
