"""The planner rests as long as its plan took; a new fault ends the rest, and nothing else does."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from reconciler.core.state import World
from reconciler.kube.client import KubeClient
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from reconciler.planner import Planner
from shared.aio import Ticks, running
from shared.model import Chip
from tests.core.worlds import a_fault, report
from tests.reconciler_io.test_executor import make
from tests.waiting import eventually

LONG_S = 600.0


class Led:
    """A planner at work whose every plan has taken ten minutes, by its watch."""

    def __init__(self, client: KubeClient) -> None:
        self.metrics = Metrics()
        self.mirror = Mirror(World(), self.metrics)
        self.executor = make(client).executor
        self.planner = Planner(
            self.mirror, self.executor, lambda: True, lambda: True, lambda _holds, _now: None, self.metrics, Ticks()
        )

    @property
    def plans(self) -> float:
        return self.metrics.registry.get_sample_value("npuwarden_reconciler_plans_total") or 0.0


@pytest.fixture
async def led(client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Led]:
    ahead = itertools.count(0, LONG_S)
    monkeypatch.setattr("reconciler.planner.time", SimpleNamespace(monotonic=lambda: time.monotonic() + next(ahead)))
    led = Led(client)
    async with running(led.planner.run()):
        await eventually("the first plan", lambda: led.plans == 1)
        yield led
    await led.executor.close()


async def test_a_new_fault_does_not_wait_for_the_rest_to_end(led: Led) -> None:
    led.mirror.accept(report("a"))
    led.mirror.accept(report("a", chips=(Chip(0, "ok"),), seq=2))
    await asyncio.sleep(0.05)
    assert led.plans == 1, "what is no fault waits"
    led.mirror.accept(report("a", a_fault(), seq=3))
    await eventually("the second plan", lambda: led.plans == 2)
    led.mirror.accept(report("a", a_fault(), seq=4))
    led.mirror.accept(report("a", seq=5))
    await asyncio.sleep(0.05)
    assert led.plans == 2, "a fault that stays, or goes, waits"
    led.mirror.accept(report("a", a_fault(), seq=6))
    await eventually("the third plan", lambda: led.plans == 3)
