"""Reading chips through a child process: against the stand-in library, in real processes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.detect.detector import Detector
from agent.detect.settings import DetectSettings
from agent.metrics import Metrics
from agent.sensors.child import Child
from agent.sensors.dcmi import DcmiSensor
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from console.lab.host.chip import Device
from shared import catalog
from shared.aio import now
from shared.names import CODE_CARD_LOST
from tests.agent.conftest import MakeHost, by_phy
from tests.waiting import eventually

pytestmark = pytest.mark.slow

CALL_TIMEOUT_S = 0.5


@asynccontextmanager
async def sensor_of(host: SimHost, library: Path) -> AsyncIterator[DcmiSensor]:
    bus = PciBus(host.sysfs)
    bus.look()
    sensor = DcmiSensor(library, bus=bus, metrics=Metrics(), call_timeout_s=CALL_TIMEOUT_S)
    try:
        yield sensor
    finally:
        await sensor.close()


def children() -> list[int]:
    """Living children of this process that run the DCMI script."""
    found = []
    for pid in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
        try:
            if "dcmi_worker.py" in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
        except OSError:
            continue
    return found


async def test_healthy_chips_are_read_with_their_identity(host: SimHost, library: Path) -> None:
    async with sensor_of(host, library) as sensor:
        reading = await sensor.poll()
        assert reading.fresh
        assert reading.pci is not None
        assert len(reading.pci) == 8
        chips = by_phy(reading)
        assert sorted(chips) == list(range(8))
        assert {(chip.health, chip.codes, chip.error, chip.hung) for chip in chips.values()} == {(0, (), None, False)}
        assert {chip.chip.pci for chip in chips.values()} == set(reading.pci)
        assert chips[3].chip.name == "910B3"
        assert chips[3].chip.die
        assert sensor.enumeration.driver == host.state().driver
        assert not (await sensor.poll()).fresh, "the second poll uses the same child"


async def test_a_die_of_zeros_tells_no_chips_apart(host: SimHost, library: Path) -> None:
    def blank(device: Device) -> Device:
        return replace(device, die=replace(device.die, v=(0, 0, 0, 0, 0))) if device.phy == 3 else device

    host.change(lambda state: replace(state, devices=tuple(blank(one) for one in state.devices)))
    async with sensor_of(host, library) as sensor:
        chips = by_phy(await sensor.poll())
    assert [phy for phy, chip in chips.items() if chip.chip.die is None] == [3]


async def test_two_dies_of_a_card_are_two_chips(make_host: MakeHost) -> None:
    host = make_host("A3", chips=4)
    if host.library is None:
        pytest.skip("no C compiler")
    async with sensor_of(host, host.library) as sensor:
        chips = by_phy(await sensor.poll())
    assert {phy: (chip.chip.card, chip.chip.chip) for phy, chip in chips.items()} == {
        0: (0, 0),
        1: (0, 1),
        2: (1, 0),
        3: (1, 1),
    }


async def test_the_950_is_read_through_its_own_functions(make_host: MakeHost) -> None:
    host = make_host("950", chips=2)
    if host.library is None:
        pytest.skip("no C compiler")
    host.occur(1, "81AF8000", severity=2)
    async with sensor_of(host, host.library) as sensor:
        chips = by_phy(await sensor.poll())
    assert {phy: (chip.health, chip.codes) for phy, chip in chips.items()} == {0: (0, ()), 1: (2, ("81AF8000",))}


async def test_codes_and_health_of_a_faulty_chip(host: SimHost, library: Path) -> None:
    host.occur(5, "80E01801")
    host.occur(5, "80CB800A", severity=1)
    async with sensor_of(host, library) as sensor:
        reading = by_phy(await sensor.poll())[5]
        assert (reading.health, set(reading.codes or ())) == (3, {"80E01801", "80CB800A"})
        host.recover(5, "80E01801")
        again = await sensor.read(5)
    assert again is not None
    assert (again.health, again.codes) == (1, ("80CB800A",))


@pytest.mark.parametrize("ret", [-8012, -8009, -8006])
async def test_an_error_code_comes_before_the_value(host: SimHost, library: Path, ret: int) -> None:
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        host.error(2, ret)
        chips = by_phy(await sensor.poll())
    assert (chips[2].health, chips[2].codes, chips[2].error) == (None, None, ret)
    assert str(ret) in chips[2].why
    assert chips[3].health == 0


async def test_a_dropped_chip_is_missing_from_a_fresh_enumeration_and_found_again(host: SimHost, library: Path) -> None:
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        host.drop(6)
        reading = await sensor.poll()
        assert reading.fresh, "a chip that stops answering is no reason to believe the old list"
        assert sorted(by_phy(reading)) == [0, 1, 2, 3, 4, 5, 7]
        host.back(6)
        reading = await sensor.poll()
        assert reading.fresh
        assert sorted(by_phy(reading)) == list(range(8))


async def test_of_an_a3_card_only_the_die_that_dropped_is_lost(make_host: MakeHost) -> None:
    """The driver leaves out the whole card."""
    host = make_host("A3", chips=4)
    if host.library is None:
        pytest.skip("no C compiler: the stand-in libdcmi.so cannot be built")
    detector = Detector(catalog.load(), DetectSettings())
    async with sensor_of(host, host.library) as sensor:
        detector.driver(await sensor.poll(), now())
        host.drop(1)
        sensor.renew()
        for _ in range(4):
            bus = PciBus(host.sysfs)
            bus.look()
            reading = await sensor.poll()
            assert sorted(by_phy(reading)) == [2, 3]
            detector.driver(replace(reading, pci=bus.npus), now())
    view = detector.view(now())
    assert [fault.id for fault in view.faults] == [f"{CODE_CARD_LOST}@1"]
    assert [one.chip for one in view.unknown] == [0]


async def test_a_chip_that_hangs_costs_only_itself(host: SimHost, library: Path) -> None:
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        host.hang(3)
        chips = by_phy(await sensor.poll())
        assert chips[3].hung
        assert (chips[3].health, chips[3].codes) == (None, None)
        assert all(chip.health == 0 for phy, chip in chips.items() if phy != 3)
        assert len(children()) <= 2
        before = set(children())
        assert by_phy(await sensor.poll())[3].hung
        assert set(children()) <= before, "a chip known to hang is left out, and costs no other child"
        assert await sensor.read(3) is None


async def test_a_chip_that_hung_is_tried_again_in_a_child_of_its_own(
    host: SimHost, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.sensors.patience.RETRY_FIRST_S", 0.1)
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        host.hang(3)
        await sensor.poll()
        host.clear(3)
        for _ in range(100):
            chips = by_phy(await sensor.poll())
            assert len(children()) <= 2
            if not chips[3].hung:
                break
            await asyncio.sleep(0.05)
        assert chips[3].health == 0


async def test_a_driver_that_answers_for_no_chip_is_silent(host: SimHost, library: Path) -> None:
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        host.hang(None, "dcmi_get_device_health")
        reading = await sensor.poll()
        assert reading.silent is not None
        assert "no chip" in reading.silent
        assert reading.chips == ()
        assert (await sensor.poll()).silent == reading.silent, "and is left alone for a while"


async def test_an_init_that_hangs_is_given_up(host: SimHost, library: Path) -> None:
    host.hang(None, "dcmi_init")
    sensor = DcmiSensor(library, bus=PciBus(host.sysfs), metrics=Metrics(), init_timeout_s=0.5)
    try:
        reading = await sensor.poll()
    finally:
        await sensor.close()
    assert reading.silent is not None
    assert "init did not come back" in reading.silent
    assert str(library) in reading.silent


async def test_a_child_that_cannot_be_killed_is_replaced_once_and_its_replacement_is_not(
    host: SimHost, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in the D state survives SIGKILL. None can be made here, so the signal is withheld."""
    kill: Callable[[Child], None] = Child.kill
    metrics = Metrics()
    sensor = DcmiSensor(library, bus=PciBus(host.sysfs), metrics=metrics, call_timeout_s=CALL_TIMEOUT_S)
    try:
        await sensor.poll()
        monkeypatch.setattr(Child, "kill", lambda child: None)
        host.hang(1)
        chips = by_phy(await sensor.poll())
        assert chips[1].hung
        assert chips[0].health == chips[7].health == 0, "one replacement goes on"
        assert len(children()) == 2
        host.hang(2)
        chips = by_phy(await sensor.poll())
        assert chips[2].hung
        assert chips[0].health == 0, "what was read before the hang counts"
        assert "cannot be killed" in chips[7].why
        assert len(children()) == 2, "no third child"
        monkeypatch.setattr("agent.sensors.patience.START_FIRST_S", 0.0)
        silent = (await sensor.poll()).silent
        assert silent is not None
        assert "cannot be killed" in silent
        assert metrics.registry.get_sample_value("npuwarden_agent_children_abandoned") == 2
    finally:
        monkeypatch.setattr(Child, "kill", kill)
        await sensor.close()
    await eventually("all children are gone", lambda: not children())


async def test_a_killed_child_is_replaced_within_the_poll(host: SimHost, library: Path) -> None:
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        (pid,) = children()
        os.kill(pid, 9)
        reading = await sensor.poll()
        assert sorted(by_phy(reading)) == list(range(8))
        assert all(chip.health == 0 for chip in reading.chips)
        assert children() != [pid]


async def test_a_library_without_some_getters_still_reads_health(host: SimHost, library: Path) -> None:
    host.missing_symbols(["dcmi_get_device_die_v2", "dcmi_get_device_pcie_info_v2", "dcmi_get_device_info"])
    async with sensor_of(host, library) as sensor:
        chips = by_phy(await sensor.poll())
    assert (chips[0].health, chips[0].chip.die, chips[0].chip.pci) == (0, None, None)


async def test_a_file_that_is_no_library_is_said(host: SimHost, tmp_path: Path) -> None:
    fake = tmp_path / "libdcmi.so"
    fake.write_text("no ELF")
    async with sensor_of(host, fake) as sensor:
        silent = (await sensor.poll()).silent
    assert silent is not None
    assert str(fake) in silent
    assert "-99999" in silent


async def test_a_cancelled_poll_leaves_no_stale_answers(host: SimHost, library: Path) -> None:
    async with sensor_of(host, library) as sensor:
        await sensor.poll()
        host.hang(0)
        poll = asyncio.create_task(sensor.poll())
        await asyncio.sleep(0.05)
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll
        host.clear(0)
        host.occur(1, "80E01801")
        chips = by_phy(await sensor.poll())
    assert (chips[0].codes, chips[1].codes) == ((), ("80E01801",))


async def test_more_codes_than_the_driver_lists_leave_the_health_and_cost_no_child(
    host: SimHost, library: Path
) -> None:
    for number in range(129):
        host.occur(3, f"{0x80E10000 + number:08X}", event=False)
    host.occur(4, "80E18402", event=False)
    async with sensor_of(host, library) as sensor:
        for _ in range(4):
            readings = by_phy(await sensor.poll())
        assert (readings[3].health, readings[3].codes, readings[3].error) == (3, None, -8005)
        assert "more than 128 codes" in readings[3].why
        assert readings[4].codes == ("80E18402",)
        assert len(children()) == 1
        (first,) = children()
        await sensor.poll()
        assert children() == [first], "nothing is enumerated anew for it"
