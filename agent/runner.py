"""Runs the probes: each in a loop of its own, with a deadline; the bug of one is no reason for another to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from agent.metrics import Metrics
from agent.probe import CannotLook, Observation, Probe
from shared.aio import Ticks, periodic
from shared.model import ProbeStatus

log = logging.getLogger(__name__)

Sink = Callable[[str, Observation | None, str | None], None]
"""(probe, what it saw, why it could not look): at least one of the last two is given."""


async def attempt(probe: Probe) -> tuple[Observation | None, str | None]:
    """One look, within its time: what it saw, and why it was in vain or partly so. A bug is logged too."""
    try:
        async with asyncio.timeout(probe.timeout_s):
            seen = await probe.look()
    except TimeoutError:
        return None, f"no answer within {probe.timeout_s:g} s"
    except CannotLook as exc:
        return None, str(exc)
    except Exception as exc:
        log.exception("probe %s has a bug; its subject is unknown until it works again", probe.name)
        return None, f"bug in the probe: {type(exc).__name__}: {exc}"
    return seen, seen.trouble


class ProbeDetails(msgspec.Struct, frozen=True):
    """One probe. age_s, took_s, error: of its last look, None before the first. last_error: the newest one, also when
    later looks went well, and how long ago it was."""

    name: str
    period_s: float
    timeout_s: float
    age_s: float | None
    took_s: float | None
    error: str | None
    last_error: str | None
    last_error_age_s: float | None


class Runner:
    """`run` never ends by itself."""

    def __init__(self, probes: Sequence[Probe], sink: Sink, *, ticks: Ticks, metrics: Metrics) -> None:
        self._probes, self._sink = probes, sink
        self._ticks, self._metrics = ticks, metrics
        self._ended: dict[str, float] = {}
        self._took_s: dict[str, float] = {}
        self._errors: dict[str, str | None] = {}
        self._last_errors: dict[str, tuple[str, float]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for probe in self._probes:
                self._ticks.expect(probe.name, within_s=3 * probe.period_s + probe.timeout_s)
                group.create_task(self._loop(probe), name=f"probe {probe.name}")

    async def _loop(self, probe: Probe) -> None:
        async def round_() -> None:
            await self.look(probe)

        await periodic(round_, period_s=probe.period_s, ticks=self._ticks, name=probe.name)

    async def look(self, probe: Probe) -> None:
        """One look, whatever comes of it told to the sink."""
        began = time.monotonic()
        seen, why = await attempt(probe)
        self._note(probe.name, time.monotonic() - began, why)
        self._sink(probe.name, seen, why)

    def status(self) -> tuple[ProbeStatus, ...]:
        """How each probe that has looked at least once is doing."""
        now = time.monotonic()
        return tuple(
            ProbeStatus(name, round(now - ended, 1), round(self._took_s[name], 3), self._errors[name])
            for name, ended in self._ended.items()
        )

    def details(self) -> list[ProbeDetails]:
        """Every probe that this agent runs, the ones that have not looked yet too."""
        now = time.monotonic()
        done = {one.name: one for one in self.status()}
        found: list[ProbeDetails] = []
        for probe in self._probes:
            one, last = done.get(probe.name), self._last_errors.get(probe.name)
            found.append(
                ProbeDetails(
                    probe.name,
                    period_s=probe.period_s,
                    timeout_s=probe.timeout_s,
                    age_s=one.age_s if one else None,
                    took_s=one.took_s if one else None,
                    error=one.error if one else None,
                    last_error=last[0] if last else None,
                    last_error_age_s=round(now - last[1], 1) if last else None,
                )
            )
        return found

    def _note(self, name: str, took_s: float, why: str | None) -> None:
        before = self._errors.get(name)
        if why is not None and before is None:
            log.warning("probe %s cannot look: %s", name, why)
        elif why is None and before is not None:
            log.info("probe %s can look again", name)
        self._ended[name], self._took_s[name], self._errors[name] = time.monotonic(), took_s, why
        self._metrics.probe_seconds.labels(name).observe(took_s)
        if why is not None:
            self._last_errors[name] = why, time.monotonic()
            self._metrics.probe_errors.labels(name).inc()
