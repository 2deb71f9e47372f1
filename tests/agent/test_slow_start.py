"""A library whose init takes long, as with a dead management controller: it is waited for, and blinds nobody."""

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.detect.detector import Detector
from agent.detect.settings import DetectSettings
from agent.metrics import Metrics
from agent.sensors.dcmi import INIT_TIMEOUT_S, DcmiSensor
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from console.lab.host.state import InitRule
from shared import catalog
from shared.aio import now
from tests.agent.conftest import by_phy
from tests.agent.test_dcmi_sensor import children

pytestmark = pytest.mark.slow

DEAD_CONTROLLER_MS = 16_000
SLOW_MS = 4_000
"""Longer than a single call may take, and than a fresh child is waited for once chips are known."""
"""Ten tries of two seconds for a card, as far as one saw it; the tool takes five times as long."""


def slow_init(host: SimHost, delay_ms: int) -> None:
    host.change(lambda state: replace(state, faults=replace(state.faults, init=InitRule(delay_ms=delay_ms))))


def sensor_of(host: SimHost, library: Path, *, call_timeout_s: float = 5.0) -> DcmiSensor:
    bus = PciBus(host.sysfs)
    bus.look()
    return DcmiSensor(library, bus=bus, metrics=Metrics(), call_timeout_s=call_timeout_s)


async def test_the_first_init_may_take_as_long_as_a_dead_controller_makes_it(host: SimHost, library: Path) -> None:
    assert INIT_TIMEOUT_S > DEAD_CONTROLLER_MS / 1000
    slow_init(host, SLOW_MS)
    sensor = sensor_of(host, library, call_timeout_s=2.0)
    try:
        began = time.monotonic()
        assert len(by_phy(await sensor.poll())) == 8
        assert time.monotonic() - began >= SLOW_MS / 1000
    finally:
        await sensor.close()


async def test_a_slow_init_of_the_fresh_child_blinds_no_chip_that_still_answers(
    host: SimHost, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.sensors.dcmi_duty.START_PATIENCE_S", 0.1)
    sensor = sensor_of(host, library)
    detector = Detector(catalog.load(), DetectSettings())
    try:
        detector.driver(await sensor.poll(), now())
        (first,) = children()
        slow_init(host, 1500)
        host.drop(6)
        fresh = False
        deadline = time.monotonic() + 20
        while not fresh:
            assert time.monotonic() < deadline
            reading = await sensor.poll()
            detector.driver(reading, now())
            fresh = reading.fresh
            chips = by_phy(reading)
            assert [chips[phy].health for phy in range(6)] == [0] * 6
            assert len(children()) <= 2
        assert 6 not in chips, "the fresh child has not found it"
        assert first not in children(), "and has taken over"
        assert {one.chip for one in detector.view(now()).unknown} == {6}
        assert not any(fault.code == "NW-MONITOR-BLIND" for fault in detector.view(now()).faults)
    finally:
        await sensor.close()
    assert children() == []


async def test_a_child_that_hung_is_not_followed_by_one_that_passes_for_well(
    host: SimHost, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has looked while the replacement starts: the poll says so."""
    monkeypatch.setattr("agent.sensors.dcmi_duty.START_PATIENCE_S", 0.1)
    bus = PciBus(host.sysfs)
    bus.look()
    sensor = DcmiSensor(library, bus=bus, metrics=Metrics(), call_timeout_s=0.5)
    try:
        await sensor.poll()
        slow_init(host, 1500)
        host.hang(0)
        reading = await sensor.poll()
        assert reading.silent is not None or all(one.health is None for one in reading.chips)
    finally:
        await sensor.close()
