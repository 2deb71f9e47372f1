"""The fallback: a poll by npu-smi alone."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.detect.readings import ChipIdentity, ChipReading
from agent.sensors.npu_smi import NpuSmi
from agent.sensors.npu_smi_boards import Boards
from agent.sensors.pci import PciBus
from agent.sensors.process import ToolError
from console.lab.host import SimHost
from console.lab.host.state import Generation, HostState
from tests.agent.conftest import MakeHost

pytestmark = pytest.mark.slow


def sensor_of(host: SimHost, *, timeout_s: float = 20) -> NpuSmi:
    bus = PciBus(host.sysfs)
    bus.look()
    return NpuSmi(host.npu_smi, bus=bus, lock=host.directory / "lock", timeout_s=timeout_s)


async def poll(sensor: NpuSmi) -> Mapping[int, ChipReading]:
    reading = await sensor.poll()
    assert reading.silent is None, reading.silent
    assert reading.fresh
    return {one.chip.phy: one for one in reading.chips}


async def test_a_healthy_host(make_host: MakeHost) -> None:
    host = make_host(chips=4)
    chips = await poll(sensor_of(host))
    assert sorted(chips) == [0, 1, 2, 3]
    assert {(chip.health, chip.codes, chip.error) for chip in chips.values()} == {(0, (), None)}
    assert chips[2].chip.pci == host.state().devices[2].pci.address
    assert chips[2].chip.name == "910B3"


async def test_physical_ids_of_two_dies(make_host: MakeHost) -> None:
    host = make_host("A3", chips=4)
    host.occur(3, "80E01801")
    chips = await poll(sensor_of(host))
    assert {phy: (chip.chip.card, chip.chip.chip) for phy, chip in chips.items()} == {
        0: (0, 0),
        1: (0, 1),
        2: (1, 0),
        3: (1, 1),
    }
    assert (chips[3].health, chips[3].codes) == (3, ("80E01801",))


async def test_codes_of_a_faulty_chip_and_one_read_now(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    sensor = sensor_of(host)
    host.occur(1, "80E18402", severity=2)
    chips = await poll(sensor)
    assert (chips[1].health, chips[1].codes) == (2, ("80E18402",))
    host.recover(1, "80E18402")
    again = await sensor.read(1)
    assert again is not None
    assert (again.health, again.codes) == (0, ())
    assert await sensor.read(9) is None


async def test_a_lost_card_is_missing_and_the_others_keep_their_ids(make_host: MakeHost) -> None:
    host = make_host(chips=4)
    sensor = sensor_of(host)
    await poll(sensor)
    host.drop(1)
    assert sorted(await poll(sensor)) == [0, 2, 3]


async def test_a_tool_that_hangs_makes_the_driver_silent(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    host.hang(None)
    reading = await sensor_of(host, timeout_s=1).poll()
    assert reading.silent is not None
    assert "no answer within 1 s" in reading.silent
    assert reading.chips == ()


async def test_a_chip_without_first_row_is_not_ready(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(chips=2)
    sensor = sensor_of(host)
    await poll(sensor)
    host.error(1, -8012)
    assert (await poll(sensor))[1].error == -8012


@pytest.mark.parametrize("text", ["Segmentation fault", "dcmi module initialize failed. ret is -8005"])
async def test_what_the_tool_says_instead_of_an_answer_is_passed_on(tmp_path: Path, text: str) -> None:
    tool = tmp_path / "npu-smi"
    tool.write_text(f"#!/bin/sh\necho '{text}'\n")
    tool.chmod(0o755)
    reading = await NpuSmi(tool, bus=PciBus(tmp_path), lock=None).poll()
    assert reading.silent is not None
    assert text in reading.silent


async def test_a_table_that_prints_ok_for_an_unreadable_chip_is_seen_through_in_turn(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    sensor = sensor_of(host)
    await poll(sensor)
    host.error(1, -8009)
    readings = [(await poll(sensor))[1] for _ in range(2)]
    assert any(reading.health is None and reading.why for reading in readings)
    assert (await poll(sensor))[1].health is None, "and it stays unknown until its own reading succeeds"
    host.clear(1)
    assert (await poll(sensor))[1].health == 0


@pytest.mark.parametrize("generation", ["910B", "A3"])
async def test_the_die_of_each_chip_is_learnt_once_and_is_the_one_that_the_library_tells(
    make_host: MakeHost, generation: Generation
) -> None:
    host = make_host(generation, chips=4)
    sensor = sensor_of(host)
    assert sum(chip.chip.die is not None for chip in (await poll(sensor)).values()) == 1, "one a poll"
    for _ in range(3):
        chips = await poll(sensor)
    dies = {device.phy: "-".join(f"{word:08X}" for word in device.die.v) for device in host.state().devices}
    assert {phy: chip.chip.die for phy, chip in chips.items()} == dies


async def test_a_chip_that_was_away_is_asked_again_who_it_is(make_host: MakeHost) -> None:
    host = make_host(chips=2)
    sensor = sensor_of(host)
    for _ in range(2):
        chips = await poll(sensor)
    old = chips[1].chip.die
    host.drop(1)
    await poll(sensor)
    host.change(lambda state: with_die(state, 1, (1, 2, 3, 4, 5)))
    host.back(1)
    chips = await poll(sensor)
    assert chips[1].chip.die == "00000001-00000002-00000003-00000004-00000005" != old


def with_die(state: HostState, phy: int, words: tuple[int, int, int, int, int]) -> HostState:
    devices = [replace(one, die=replace(one.die, v=words)) if one.phy == phy else one for one in state.devices]
    return replace(state, devices=tuple(devices))


@pytest.mark.parametrize("vdie", ["NA", "00000000 00000000 00000000 00000000 00000000"])
async def test_where_no_die_is_printed_the_number_of_the_card_stands_for_it(vdie: str) -> None:
    asked: list[tuple[str, ...]] = []

    async def ask(*args: str) -> tuple[str, ...]:
        asked.append(args)
        if "-c" in args:
            return ("NPU ID : 1", "Chip ID : 0", "Chip Type : Ascend", f"VDie ID : {vdie}")
        if len(asked) < 3:
            raise ToolError("busy")
        return ("NPU ID : 1", "Product Name : X", "Serial Number : 2106")

    boards, chip = Boards(ask), ChipIdentity(1, card=1, chip=0)
    for _ in range(5):
        await boards.learn([chip])
    assert (boards.complete(chip).die, boards.complete(chip).serial) == (None, "2106")
    assert len(asked) == 4, "a call that failed is made again, and none after an answer"
