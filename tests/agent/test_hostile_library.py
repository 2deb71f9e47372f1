"""Driver libraries that crash, lie or stall: such a chip is unknown, and the chips beside it are watched."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.detect.detector import Detector
from agent.detect.readings import ChipIdentity, ChipReading, DriverReading
from agent.detect.view import DetectView
from agent.metrics import Metrics
from agent.sensors.dcmi import DcmiSensor
from shared import catalog
from shared.aio import now
from tests.agent.conftest import by_phy
from tests.agent.test_dcmi_sensor import children
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <stdio.h>
#define OUT __attribute__((visibility("default")))
static int cards = 4;
OUT int dcmi_init(void) { INIT; return 0; }
OUT int dcmi_get_card_list(int *n, int *list, int room) {
    for (int i = 0; i < cards; i++) list[i] = i;
    *n = cards;
    LIST;
    return 0;
}
OUT int dcmi_get_device_id_in_card(int card, int *devices, int *mcu, int *cpu) {
    *devices = 1; *mcu = -1; *cpu = -1; DEVICES; return 0;
}
OUT int dcmi_get_device_logic_id(int *logic, int card, int device) { *logic = card; return 0; }
OUT int dcmi_get_device_phyid_from_logicid(unsigned logic, unsigned *phy) { *phy = logic; PHY; return 0; }
OUT int dcmi_get_device_health(int card, int device, unsigned *health) { *health = 0; HEALTH; return 0; }
OUT int dcmi_get_device_errorcode_v2(int card, int device, int *n, unsigned *codes, unsigned room) {
    *n = 0; CODES; return 0;
}
"""
HOOKS = ("INIT", "LIST", "DEVICES", "PHY", "HEALTH", "CODES")
CODE = "80E01801"

MakeLibrary = Callable[..., Path]


@pytest.fixture
def make_library(tmp_path: Path) -> MakeLibrary:
    """``make_library(HEALTH="if (card == 2) abort()")``: C statements for the hooks of SOURCE."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")

    def make(**hooks: str) -> Path:
        target = tmp_path / "libdcmi.so"
        defines = "".join(f"#define {name} {hooks.get(name, '')}\n" for name in HOOKS)
        source = tmp_path / "lib.c"
        source.write_text(defines + SOURCE)
        subprocess.run([str(compiler), "-shared", "-fPIC", "-w", "-o", str(target), str(source)], check=True)
        return target

    return make


class Bus:
    npus: frozenset[str] | None = None
    passed_through: frozenset[str] = frozenset()


@asynccontextmanager
async def sensor_of(library: Path, call_timeout_s: float = 0.5) -> AsyncIterator[DcmiSensor]:
    sensor = DcmiSensor(library, bus=Bus(), metrics=Metrics(), call_timeout_s=call_timeout_s, init_timeout_s=3)
    try:
        yield sensor
    finally:
        await sensor.close()


def judged(*readings: DriverReading) -> DetectView:
    detector = Detector(catalog.load(), AgentConfig().debounce)
    for reading in readings:
        detector.driver(reading, now())
    return detector.view(now())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def unknown(view: DetectView) -> set[int | str]:
    return {one.chip for one in view.unknown}


async def test_a_chip_whose_call_crashes_the_library_costs_the_other_chips_nothing(make_library: MakeLibrary) -> None:
    async with sensor_of(make_library(HEALTH="if (card == 1) abort()")) as sensor:
        readings = [await sensor.poll() for _ in range(3)]
        last = by_phy(readings[-1])
        assert {phy for phy, one in last.items() if one.codes == ()} == {0, 2, 3}
        assert unknown(judged(*readings)) == {1}
        assert len(children()) <= 2


@pytest.mark.parametrize(
    "codes",
    [
        pytest.param("*n = -1", id="a negative count"),
        pytest.param("*n = 2000000000", id="a count above the room"),
        pytest.param("*n = (int)0x80000000", id="the smallest count"),
    ],
)
async def test_a_code_list_that_cannot_be_is_no_empty_list(make_library: MakeLibrary, codes: str) -> None:
    async with sensor_of(make_library(CODES=f"if (card == 1) {{ {codes}; }}")) as sensor:
        reading = await sensor.poll()
    chip = by_phy(reading)[1]
    assert chip.codes is None
    assert chip.why
    assert unknown(judged(reading)) == {1}


@pytest.mark.parametrize("health", ["7", "0xFFFFFFFF", "4", "0x80000000"])
async def test_a_health_that_cannot_be_is_not_well(make_library: MakeLibrary, health: str) -> None:
    async with sensor_of(make_library(HEALTH=f"if (card == 1) *health = {health}")) as sensor:
        reading = await sensor.poll()
    assert by_phy(reading)[1].health is None
    assert unknown(judged(reading)) == {1}


async def test_a_fault_is_seen_although_the_health_cannot_be(make_library: MakeLibrary) -> None:
    library = make_library(
        HEALTH="if (card == 1) *health = 7", CODES=f"if (card == 1) {{ *n = 1; codes[0] = 0x{CODE}; }}"
    )
    async with sensor_of(library) as sensor:
        view = judged(await sensor.poll())
    assert [fault.id for fault in view.faults] == [f"{CODE}@1"]


async def test_two_chips_of_one_physical_id_are_not_one_healthy_chip(make_library: MakeLibrary) -> None:
    """Nobody can tell which of them a fault is on: an id map that lies is not believed at all."""
    async with sensor_of(make_library(PHY="if (logic == 2) *phy = 1")) as sensor:
        readings = [await sensor.poll() for _ in range(2)]
    assert readings[-1].silent
    assert "physical id 1" in readings[-1].silent
    assert [fault.code for fault in judged(*readings).faults] == ["NW-MONITOR-BLIND"]


async def test_a_card_that_was_never_there_is_not_passed_over(make_library: MakeLibrary) -> None:
    """The list names a card -1: it boots, is occupied or has failed at init. The node is not healthy, it is unknown."""
    async with sensor_of(make_library(LIST="list[2] = -1")) as sensor:
        readings = [await sensor.poll() for _ in range(2)]
    view = judged(*readings)
    assert unknown(view) == {"node"}


async def test_a_chip_that_hangs_before_it_has_a_name_is_not_passed_over(make_library: MakeLibrary) -> None:
    async with sensor_of(make_library(PHY="if (logic == 2) sleep(100)")) as sensor:
        reading = await sensor.poll()
    view = judged(reading)
    assert {chip.phy for chip in view.chips if chip.health == "ok"} == {0, 1, 3}
    assert unknown(view) == {"node"}


def test_an_npu_on_the_bus_that_the_driver_never_listed_is_unknown() -> None:
    known = ChipReading(ChipIdentity(0, pci="0000:01:00.0"), health=0, codes=())
    view = judged(DriverReading(chips=(known,), pci=frozenset({"0000:01:00.0", "0000:02:00.0"})))
    assert [(one.chip, "0000:02:00.0" in one.why) for one in view.unknown] == [("node", True)]


@pytest.mark.parametrize("count", [-5, 65, 100000])
async def test_a_card_list_that_cannot_be_is_a_silent_driver(make_library: MakeLibrary, count: int) -> None:
    async with sensor_of(make_library(LIST=f"*n = {count}")) as sensor:
        reading = await sensor.poll()
    assert reading.silent is not None or len(reading.chips) == 4


@pytest.mark.parametrize("devices", ["*devices = -3", "*devices = 100000"])
async def test_a_number_of_devices_that_cannot_be_hangs_nobody(make_library: MakeLibrary, devices: str) -> None:
    async with sensor_of(make_library(DEVICES=f"if (card == 1) {{ {devices}; }}")) as sensor:
        async with asyncio.timeout(10):
            readings = [await sensor.poll() for _ in range(2)]
    assert unknown(judged(*readings)) or readings[-1].silent


@pytest.mark.parametrize("init", ["abort()", "exit(3)", "*(volatile int *)0 = 1", "return -8005", "_exit(0)"])
async def test_a_library_that_dies_in_init_is_a_silent_driver(make_library: MakeLibrary, init: str) -> None:
    async with sensor_of(make_library(INIT=init)) as sensor:
        reading = await sensor.poll()
        assert reading.silent
        assert "init" in reading.silent
    assert judged(reading).chips == ()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\necho hi\n", b"\x7fELF" + b"\0" * 5000])
async def test_a_file_that_is_no_library_is_a_silent_driver(tmp_path: Path, content: bytes) -> None:
    library = tmp_path / "libdcmi.so"
    library.write_bytes(content)
    async with sensor_of(library) as sensor:
        reading = await sensor.poll()
    assert reading.silent
    assert str(library) in reading.silent


async def test_a_library_that_floods_stdout_is_read_all_the_same(make_library: MakeLibrary) -> None:
    async with sensor_of(make_library(HEALTH='for (int i = 0; i < 200000; i++) puts("noise noise noise")')) as sensor:
        assert {one.health for one in by_phy(await sensor.poll()).values()} == {0}


async def test_an_agent_that_was_stopped_does_not_take_an_answer_in_time_for_a_hang(make_library: MakeLibrary) -> None:
    """SIGSTOP, a frozen cgroup, a paused machine: the deadline is over and the answer has long been there."""
    async with sensor_of(make_library(HEALTH="usleep(20000)"), call_timeout_s=0.3) as sensor:
        await sensor.poll()
        poll = asyncio.create_task(sensor.poll())
        await asyncio.sleep(0.01)
        time.sleep(1.0)  # noqa: ASYNC251  # nothing of ours runs meanwhile
        reading = await poll
    assert [one.chip.phy for one in reading.chips if one.hung] == []
    assert judged(reading).unknown == ()


async def test_two_hundred_polls_leave_no_descriptor_and_no_child(make_library: MakeLibrary, tmp_path: Path) -> None:
    """Every tenth call crashes the library."""
    counter = tmp_path / "count"
    counter.write_bytes(b"")
    crash = f'FILE *f = fopen("{counter}", "a"); fputc(1, f); if (ftell(f) % 40 == 0) abort(); fclose(f)'
    async with sensor_of(make_library(HEALTH=crash)) as sensor:
        await sensor.poll()
        before = descriptors()
        for _ in range(200):
            await sensor.poll()
            assert len(children()) <= 3
        await eventually("one child", lambda: len(children()) <= 1)
        await eventually("no leak", lambda: descriptors() <= before)
    assert children() == []
