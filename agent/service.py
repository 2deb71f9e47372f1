"""The agent at work: what sensors see goes into detection, detection's view goes to disk and to Redis.

One event loop; detection is only touched between awaits, so it needs no lock. The state is saved first, then reported.
A report that Redis has not taken is overtaken by the next; its changes are in the outbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from agent.command_stream import CommandStream
from agent.commands import Commands
from agent.config import AgentConfig
from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.detect.readings import ChipEvent, DriverReading
from agent.disk import Disk
from agent.drill import DrillBench, Running
from agent.fault_config import FaultConfig
from agent.feed import feed
from agent.host import Host
from agent.metrics import Metrics
from agent.orders import Orders
from agent.peer_book import PeerBook
from agent.probe import Observation, Probe
from agent.publisher import Publisher
from agent.remembering import remember
from agent.reporting import Context, Reporter, note_of
from agent.runner import Runner
from agent.sensors.events import EventStream
from agent.wanted_reads import WantedReads
from shared.aio import Ticks, cancel, now, periodic
from shared.model import FaultLevel, NodeReport
from shared.names import CODE_BOOT_FINISHED
from shared.wire import encode

log = logging.getLogger(__name__)

CHIP_PROBE = "chip_health"
LAST_REPORT_S = 2.0
SHORTEST_SLEEP_S, LONGEST_SLEEP_S = 0.01, 10.0


class Kept(msgspec.Struct, frozen=True):
    """What is in the state file beside the outbox. `boot_id` tells whether its monotonic times still mean anything.
    `probes`: what probes want to know again, by their names."""

    boot_id: str
    session: str
    memory: DetectorMemory
    probes: dict[str, msgspec.Raw] = {}
    drill: Running | None = None


class Agent:
    """Everything is handed in. `run` owns every loop and ends them all when `stop` is set.

    remembered: what probes wanted to know again, by their names, as an earlier process has saved it.
    """

    def __init__(
        self,
        config: AgentConfig,
        *,
        host: Host,
        detector: Detector,
        reporter: Reporter,
        disk: Disk,
        publisher: Publisher,
        commands: CommandStream,
        probes: Sequence[Probe],
        metrics: Metrics,
        drill: Running | None = None,
        remembered: Mapping[str, msgspec.Raw] | None = None,
    ) -> None:
        self.detector, self.publisher, self.disk = detector, publisher, disk
        self.latest: NodeReport | None = None
        self.looked = False
        self.ticks = Ticks()
        self.metrics = metrics
        for complaint in detector.forget_probes({probe.name for probe in probes}, now()):
            log.warning("%s", complaint)
        self.runner = Runner(probes, self.observe, ticks=self.ticks, metrics=metrics)
        self._probes = probes
        self._remembered = remembered
        self._firmware: str | None = None
        self.config, self._host, self._reporter = config, host, reporter
        self._chip_probe = next(probe for probe in probes if probe.name == CHIP_PROBE)
        self.fault_config = FaultConfig(Path(config.paths.config_dir), detector, metrics)
        self._wake = asyncio.Event()
        self._reads = WantedReads(detector, poll=self._look, read=host.sensors.chips.read, changed=self._wake.set)
        self._next_beat = 0.0
        self._event_at: float | None = None
        self.events = None
        if host.library is not None:
            self.events = EventStream(host.library, on_events=self.hear, on_gap=self._reads.want_poll, metrics=metrics)
        book = host.sensors.peers or PeerBook()
        wake = {"poll": self._reads.want_poll, "changed": self._wake.set}
        self.drills = DrillBench(detector.fork, boot_id=host.boot_id, kept=drill, **wake)
        orders = Orders(detector, book, self.drills, **wake).table()
        self._commands = Commands(commands, disk, orders, node=commands.node, metrics=metrics, ticks=self.ticks)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. A loop that ends by itself is a bug and ends the agent, loudly."""
        await self._reload()
        try:
            async with asyncio.TaskGroup() as group:
                loops = [group.create_task(loop, name=name) for name, loop in self._loops().items()]
                await stop.wait()
                log.info("ending: the last report follows")
                await cancel(*loops)
        finally:
            await asyncio.gather(self._last_report(), self._host.sensors.chips.close())

    def _loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        period_s = self.config.poll.host_s
        self.ticks.expect("report", within_s=3 * LONGEST_SLEEP_S)
        self.ticks.expect("fault files", within_s=3 * period_s + LONGEST_SLEEP_S)
        loops = {
            "probes": self.runner.run(),
            "report": self._report_loop(),
            "reads": self._reads.run(),
            "publisher": self.publisher.run(),
            "commands": self._commands.run(),
            "fault files": periodic(self._reload, period_s=period_s, ticks=self.ticks, name="fault files"),
        }
        if self.events is not None:
            loops["events"] = self.events.run()
        return loops

    # -- what comes in -------------------------------------------------------------------------------------------

    def observe(self, probe: str, seen: Observation | None, why: str | None) -> None:
        """One look of a probe, or why it could not look."""
        at = now()
        if probe != CHIP_PROBE:
            self.detector.node_blind(probe, why, at)
        elif seen is None:
            bus = self._host.sensors.bus
            seen = Observation(driver=DriverReading(silent=why, pci=bus.npus, passed_through=bus.passed_through))
        if seen is not None:
            feed(self.detector, probe, seen, at)
            self._firmware = seen.firmware or self._firmware
        if probe == CHIP_PROBE:
            if seen is not None:
                self.drills.see(seen, at)
            self.looked = True
            if self.events is not None:
                self.events.follow(frozenset(self._host.sensors.chips.enumeration.chips))
        self._wake.set()

    async def _look(self) -> None:
        await self.runner.look(self._chip_probe)

    def hear(self, events: Sequence[ChipEvent]) -> None:
        """Events of the driver, in order."""
        at = now()
        self.detector.events(events, at)
        self._event_at = self._event_at or at.mono
        if any(event.code == CODE_BOOT_FINISHED for event in events):
            self._host.sensors.chips.renew()
            self._reads.want_poll()
        self._wake.set()

    async def _reload(self) -> None:
        """MindCluster's files, when they have changed."""
        if await self.fault_config.refresh():
            self._wake.set()

    # -- what goes out -------------------------------------------------------------------------------------------

    async def _report_loop(self) -> None:
        while True:
            self._wake.clear()
            at = now()
            self.detector.tick(at)
            if self.detector.due(at):
                self._reads.want_reads()
            await self._report()
            self.ticks.tick("report")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sleep_s()):
                    await self._wake.wait()

    def _sleep_s(self) -> float:
        """Until the next heartbeat or timer. A timer that only waits for a read in flight is no reason to turn."""
        mono = time.monotonic()
        times = [self._next_beat if self.looked else mono + LONGEST_SLEEP_S, mono + LONGEST_SLEEP_S]
        timer = self.detector.wake_at
        if timer is not None and not self._reads.under_way:
            times.append(timer)
        if self.drills.wake_at is not None:
            times.append(self.drills.wake_at)
        return max(SHORTEST_SLEEP_S, min(times) - mono)

    async def _report(self) -> None:
        """Save and publish, if there is anything to say. Before the first look at the chips there is not: a report
        without them would pass for a node without faults."""
        if not self.looked:
            return
        sensors = self._host.sensors
        if sensors.pods is not None:
            await sensors.pods.look()
        at = now()
        beat = at.mono >= self._next_beat
        context = Context.of(sensors, self.runner.status(), self._firmware)
        event_at, self._event_at = self._event_at, None
        real, news = self.detector.view(at), self.detector.drain_events()
        withheld = self.drills.withholds(real, at, news=bool(news))
        view, drilled, drill = self.drills.shown(real, at)
        if drill is not None and self.drills.wants_look:
            self._reads.want_poll()
        report = self._reporter.report(view, context, (*news, *drilled), at, beat=beat, drill=drill)
        if report is None:
            return
        if beat:
            self._next_beat = at.mono + self.config.report.heartbeat_s * random.uniform(0.9, 1.1)
        notes = [encode(note_of(report))] if self._reporter.changed and not withheld else []
        memory, self._remembered = self.detector.memory(at), remember(self._probes, self._remembered)
        kept = Kept(self._host.boot_id, report.session, memory, self._remembered, self.drills.running)
        if not withheld:
            self.publisher.offer(encode(report), since=event_at)
        await self.disk.save(msgspec.json.encode(kept), notes)
        self.latest = report  # only now: who sees a fault may rely on it outliving a kill
        if not withheld:
            self.publisher.wake()
        self._count(report)
        for event in report.events:
            log.warning("%s %s", event.id, event.kind)

    async def _last_report(self) -> None:
        await self._report()
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self.publisher.send()
        except TimeoutError:
            log.warning("Redis did not take the last report in %.0f s; its changes stay in the outbox", LAST_REPORT_S)

    def _count(self, report: NodeReport) -> None:
        faults = Counter[tuple[FaultLevel, str]]((fault.level, fault.origin) for fault in report.faults)
        for level, origin in product(FaultLevel, ("probe", "drill")):
            self.metrics.open_faults.labels(level.value, origin).set(faults[level, origin])
        for health in ("ok", "fault", "unknown"):
            self.metrics.chips.labels(health).set(sum(chip.health == health for chip in report.chips))
        self.metrics.blind_sources.clear()
        for one in report.unknown:
            self.metrics.blind_sources.labels(one.probe).inc()
