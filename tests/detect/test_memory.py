"""Memory on the clock of another boot."""

from __future__ import annotations

import pytest

from agent.detect.memory import DetectorMemory
from agent.detect.readings import ChipReading
from shared.model import Instant
from tests.detect.bench import WALL_S, Bench, at, good

LINK_DOWN = "81078603"


def saved_after(*, down_s: float) -> DetectorMemory:
    """Down since `down_s` before the end of the old boot, whose monotonic clock showed 1000."""
    bench = Bench()
    bench.poll(1000 - down_s, good(3, LINK_DOWN, health=2))
    bench.poll(1000, good(3, LINK_DOWN, health=2))
    return bench.detector.memory(at(1000))


@pytest.mark.parametrize(
    ("away_s", "level"),
    [
        pytest.param(5.0, "NotHandleFault", id="10 s before and 5 s away"),
        pytest.param(15.0, "PreSeparateNPU", id="10 s before and 15 s away"),
        pytest.param(-7200.0, "NotHandleFault", id="a clock that went back is no time"),
    ],
)
def test_the_wall_clock_tells_how_long_a_reboot_took(away_s: float, level: str) -> None:
    booted = Instant(mono=3.0, wall=WALL_S + 1000 + away_s)
    bench = Bench(saved_after(down_s=10).rebased(booted, same_boot=False))
    bench.poll(3, good(3, LINK_DOWN, health=2))
    assert bench.faults(3) == {f"{LINK_DOWN}@3": level}


def test_within_one_boot_the_monotonic_clock_goes_on() -> None:
    memory = saved_after(down_s=10)
    jumped = Instant(mono=1005.0, wall=WALL_S + 99_999)
    assert memory.rebased(jumped, same_boot=True) is memory


def test_a_chip_that_did_not_come_back_from_the_reboot_is_lost() -> None:
    before = Bench()
    before.poll(0, good(2), good(3))
    after = Bench(before.detector.memory(at(0)).rebased(at(0), same_boot=False))
    for mono in (1, 2, 3):
        after.poll(mono, good(2))
    assert after.faults(3) == {"40F84E00@3": "RestartNPU"}


def test_the_memory_of_a_detector_does_not_change_with_it() -> None:
    bench = Bench()
    bench.poll(0, good(3, "80E18402", health=3))
    memory = bench.detector.memory(at(0))
    bench.poll(5, ChipReading(good(3).chip, health=0, codes=()))
    assert [(track.code, track.is_open) for track in memory.tracks] == [("80E18402", True)]
    assert memory.chips[0].codes == ("80E18402",)
