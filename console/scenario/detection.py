"""Runs a detection scenario: sensor readings on a virtual clock in, faults compared with what is expected.

Polls are at 0, 5, 10, ... (links every 30 s, host findings every 10 s, unless the scenario says otherwise; what chips
work on once a minute), events arrive at once, and a read that detection asks for is answered at once from the machine's
present state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent.config import AgentConfig, check
from agent.detect.detector import Detector
from agent.detect.memory import DetectorMemory
from agent.detect.readings import Assertion, ChipEvent, ChipFinding, NodeFinding
from agent.probes import chip_hang
from console.scenario.common import START_WALL_S, Result, ScenarioError, convert
from console.scenario.detection_expect import failures
from console.scenario.detection_format import CodeStep, DriverStep, EventStep, Scenario, Step, read
from console.scenario.machine import WORK_PERIOD_S, VirtualMachine
from shared import catalog
from shared.config import ConfigError
from shared.model import FaultEvent, Instant

AGENT_KEY = "agent"
REBOOT_MONO_S = 1000.0
"""What the monotonic clock shows right after a reboot: not what it showed before, and not zero either."""


def run_detection(path: Path, raw: dict[str, Any]) -> Result:
    """Run one file. Raises ScenarioError for a file that cannot be run."""
    scenario = read(raw)
    found = _Run(scenario).failures()
    return Result(path=path, name=scenario.name, ok=not found, failures=found)


class _Run:
    """One agent on one virtual machine. `at` is the scenario's clock, `mono` the machine's."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._files = {name: _text(content) for name, content in scenario.config.items() if name != AGENT_KEY}
        self._agent = convert(scenario.config.get(AGENT_KEY, {}), AgentConfig, where=f"$.config.{AGENT_KEY}")
        try:
            check(self._agent, source=f"$.config.{AGENT_KEY}")
        except ConfigError as exc:
            raise ScenarioError(str(exc)) from exc
        self._machine = VirtualMachine(scenario.machine.chips)
        self._watch = chip_hang.watch(self._agent.probes.chip_hang)
        self._catalogue = catalog.load()
        self._at = 0.0
        self._mono = 0.0
        self._wall_offset = 0.0
        self._detector = Detector(self._catalogue, self._agent.debounce)
        self._detector.config(self._files, self._now())
        self._events: list[FaultEvent] = []
        self._queries = 0

    def failures(self) -> list[str]:
        steps = sorted(self._scenario.timeline, key=lambda step: step.at)
        expects = sorted(self._scenario.expect, key=lambda expect: expect.at)
        poll = self._agent.poll
        periods = {"chips": poll.chips_s, "links": poll.links_s, "host": poll.host_s}
        if any(step.work for step in steps):
            periods["work"] = WORK_PERIOD_S
        rounds = dict.fromkeys(periods, 0)
        found: list[str] = []
        while expects:
            times = [steps[0].at] if steps else []
            times += [expects[0].at, *(rounds[name] * period for name, period in periods.items())]
            self._advance(min(times))
            while steps and steps[0].at == self._at:
                self._take(steps.pop(0))
            self._settle()
            for name, period in periods.items():
                if rounds[name] * period == self._at:
                    rounds[name] += 1
                    self._poll(name)
            self._settle()
            while expects and expects[0].at == self._at:
                view = self._detector.view(self._now())
                found += failures(expects.pop(0), view, self._events, self._queries)
        return found

    def _now(self) -> Instant:
        return Instant(mono=self._mono, wall=START_WALL_S + self._at + self._wall_offset)

    def _advance(self, at: float) -> None:
        """To the next planned moment `at`, or to the moment before it at which detection wants to be woken."""
        wake = self._detector.wake_at
        mono = self._mono + (at - self._at)
        while wake is not None and wake < mono:
            # The exact value, not one that went through a subtraction: timers compare with what they asked for.
            self._at, self._mono = max(self._at, at - (mono - wake)), max(self._mono, wake)
            self._detector.tick(self._now())
            self._settle()
            again = self._detector.wake_at
            if again is not None and again <= wake:
                raise RuntimeError(f"detection asks to be woken at {again}, again and again")
            wake = again
        self._at, self._mono = at, max(self._mono, mono)

    def _settle(self) -> None:
        """Reads that are due, answered at once."""
        for due in self._detector.due(self._now()):
            self._queries += due.reason == "recover"
            chip = self._machine.chips[due.phy]
            if chip.gone:
                self._detector.reread(due.phy, None, self._now(), error=-8005)
            else:
                seen = chip.reading()
                self._detector.reread(due.phy, seen.codes, self._now(), error=seen.error, health=seen.health)
        self._events += self._detector.drain_events()

    def _poll(self, name: str) -> None:
        match name:
            case "chips":
                self._detector.driver(self._machine.driver(), self._now())
            case "links":
                self._detector.links(self._machine.links(), self._now())
            case "work":
                self._detector.chips(list(self._hangs()), self._now(), probe=chip_hang.ChipHang.name)
            case "host":
                self._detector.node(list(self._machine.findings.values()), self._now())

    def _hangs(self) -> Iterator[ChipFinding]:
        for chip in self._machine.chips:
            hangs = None if chip.gone else self._watch.see(chip.identity.phy, chip.worked(self._mono))
            if hangs is not None:
                yield ChipFinding(chip.identity.phy, chip_hang.CODE, hangs)

    def _take(self, step: Step) -> None:
        chips = self._machine.chips
        if step.occur:
            chips[step.occur.chip].codes[step.occur.code] = step.occur.severity
            self._event(step.occur, "occur")
        elif step.recover:
            chips[step.recover.chip].codes.pop(step.recover.code, None)
            self._event(step.recover, "recover")
        elif step.once:
            self._event(step.once, "once")
        elif step.event:
            self._event(step.event, step.event.assertion)
        elif step.driver:
            _set_driver(self._machine, step.driver)
        elif step.link:
            chip = chips[step.link.chip]
            chip.link_up = step.link.up if step.link.error is None else None
            chip.link_why = step.link.error or ""
        elif step.work:
            chips[step.work.chip].work = step.work
        elif step.node:
            finding = NodeFinding(step.node.code, step.node.active, step.node.level and step.node.level.value)
            self._machine.findings[step.node.code] = finding
        elif step.gone:
            chips[step.gone.chip].gone = True
        elif step.back:
            chips[step.back.chip].gone = False
        elif step.config is not None:
            changed = {name: _text(content) for name, content in step.config.items()}
            self._files.update(changed)
            self._detector.config(changed, self._now())
        elif step.clock:
            self._wall_offset += step.clock.wall
        elif step.restart:
            self._restart(same_boot=step.restart == "agent")
        elif step.operator:
            self._detector.operator_release(step.operator.release.chip, step.operator.release.code, self._now())

    def _event(self, step: CodeStep | EventStep, assertion: Assertion) -> None:
        if self._scenario.machine.events:
            event = ChipEvent(step.chip, step.code, assertion, severity=step.severity)
            self._detector.events([event], self._now())

    def _restart(self, *, same_boot: bool) -> None:
        """The process ends and starts again at once, with what it had saved as JSON."""
        self._events += self._detector.drain_events()
        saved = msgspec.json.encode(self._detector.memory(self._now()))
        if not same_boot:
            self._mono = REBOOT_MONO_S
        memory = msgspec.json.decode(saved, type=DetectorMemory).rebased(self._now(), same_boot=same_boot)
        self._detector = Detector(self._catalogue, self._agent.debounce, memory)
        self._watch = chip_hang.watch(self._agent.probes.chip_hang)
        self._detector.config(self._files, self._now())


def _set_driver(machine: VirtualMachine, step: DriverStep) -> None:
    chip = machine.chips[step.chip]
    if step.codes is not None:
        chip.codes = dict.fromkeys(step.codes)
        chip.health = step.health
    elif step.health is not None:
        chip.health = step.health
    chip.error = chip.error if step.error is None else step.error
    chip.hang = chip.hang if step.hang is None else step.hang


def _text(content: Any) -> str:
    """A string is the file's raw text, anything else its JSON."""
    return content if isinstance(content, str) else json.dumps(content)
