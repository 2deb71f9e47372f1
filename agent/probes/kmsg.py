"""Kernel messages that mean a fault of the host, or a chip whose heartbeat the driver has lost.

A message is a moment and no state: its code holds for `hold_s` after the last one. What was printed before the agent
started counts from when it was printed, so an old message raises nothing. Records that the kernel overwrote before they
were read are told, and then no code is denied for `hold_s`. A lost heartbeat is handed on as an event of the chip, and
the driver's own list decides whether it is so; one from before the start needs no event, since the first poll looks at
every chip.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agent.config import AgentConfig
from agent.detect.readings import ChipEvent, NodeFinding
from agent.evidence import Recent
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.kmsg import Kmsg, Message
from agent.sensors.kmsg_patterns import CODES, match
from shared.aio import now
from shared.model import Instant
from shared.names import CODE_CARD_LOST

log = logging.getLogger(__name__)

MAX_TEXT = 200
MATCHED_AT_ONCE = 500
"""Messages, between two turns of the event loop: each is held against every pattern."""
LOST_CHIP_UNKNOWN = "NW-KMSG-NPU"
"""The node's code for the heartbeat of a chip that the driver does not list: the node must not keep it for itself."""


class Kept(msgspec.Struct, frozen=True):
    """How far the log had been judged, and the newest message of each code."""

    seq: int
    at: Instant
    last: dict[str, Message]


class KernelLog:
    name = "kmsg"
    timeout_s = 5.0

    def __init__(self, period_s: float, sensors: Sensors, kmsg: Kmsg, *, hold_s: float) -> None:
        self.period_s = period_s
        self._sensors, self._kmsg, self._hold_s = sensors, kmsg, hold_s
        self._recent: Recent | None = None
        self._last: dict[str, Message] = {}
        self._seq = -1
        self._last_run: Instant | None = None
        """When an earlier process of this boot judged the log last: all records after `_seq` are younger."""

    async def look(self) -> Observation:
        at = now()
        events: list[ChipEvent] = []
        lost = 0
        if self._recent is None:
            self._recent = await self._history(at)
        else:
            messages = [message for message in self._read(at) if message.seq > self._seq]  # not what was read before
            lost = self._lost(messages, at.mono, self._recent)
            for first in range(0, len(messages), MATCHED_AT_ONCE):
                events += self._sort(messages[first : first + MATCHED_AT_ONCE], at.mono, self._recent)
                await asyncio.sleep(0)
        findings = tuple(self._findings(at.mono, self._recent))
        return Observation(events=tuple(events), node=findings, partly=told(lost))

    def memory(self) -> Kept:
        return Kept(self._seq, now(), self._last)

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        """The messages of an earlier boot hold for `hold_s` too; the clock between is the wall's."""
        before = msgspec.json.decode(kept, type=Kept)
        self._last = before.last
        if same_boot:
            self._seq, self._last_run = before.seq, before.at
        else:
            aged = {code: at.mono - max(0.0, at.wall - one.wall) for code, one in before.last.items()}
            self._last = {code: replace(one, mono=aged[code]) for code, one in before.last.items()}

    async def _history(self, at: Instant) -> Recent:
        """What is known at the start: from an earlier process, and from the ring as far as it goes back."""
        first: Message | None = None
        while True:
            messages = self._read(at)
            first = first or (messages[0] if messages else None)
            for n, message in enumerate(messages):
                if n % MATCHED_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if message.seq > self._seq:
                    self._seq = message.seq
                    self._keep(message)
            if not self._kmsg.more:
                break
        began = at.mono if first is None else float("-inf") if first.seq == 0 else first.mono
        recent = Recent(window_s=self._hold_s, limit=1, began=began)
        for code, message in self._last.items():
            recent.note(code, message.mono)
        return recent

    def _keep(self, message: Message) -> None:
        found = match(message.text)
        if found is not None and found[0] != CODE_CARD_LOST:
            since = self._last_run.mono if self._last_run is not None else message.mono
            self._last[found[0]] = replace(message, text=message.text[:MAX_TEXT], mono=max(message.mono, since))

    def _read(self, at: Instant) -> list[Message]:
        try:
            return self._kmsg.new(at)
        except OSError as exc:
            raise CannotLook(f"{self._kmsg.path}: {exc.strerror or exc}") from exc

    def _lost(self, messages: Sequence[Message], mono: float, recent: Recent) -> int:
        """How many records are missing, before and among these: the kernel numbers them without a gap. Before the first
        that was ever read nothing is known to be."""
        seqs = [message.seq for message in messages]
        if self._seq >= 0:
            seqs.insert(0, self._seq)
        lost = sum(after - before - 1 for before, after in pairwise(seqs))
        if lost:
            recent.missed(mono)
        return lost

    def _sort(self, messages: Iterable[Message], mono: float, recent: Recent) -> list[ChipEvent]:
        """Note what concerns the node; return what concerns chips."""
        events: list[ChipEvent] = []
        chips = self._sensors.chips.enumeration.chips
        for message in messages:
            self._seq = message.seq
            found = match(message.text)
            if found is None:
                continue
            code, groups = found
            if code == CODE_CARD_LOST and int(groups["chip"]) in chips:
                log.error("kernel: %s; the driver is asked about that chip", message.text)
                events.append(ChipEvent(int(groups["chip"]), CODE_CARD_LOST, "occur", name=message.text))
                continue
            if code == CODE_CARD_LOST:
                code = LOST_CHIP_UNKNOWN
            recent.note(code, mono)
            self._last[code] = replace(message, text=message.text[:MAX_TEXT], mono=mono)
        return events

    def _findings(self, mono: float, recent: Recent) -> Iterable[NodeFinding]:
        for code in CODES:
            active = recent.judge(code, mono)
            if active is not None:
                yield NodeFinding(code, active, evidence=self._evidence(code) if active else {})

    def _evidence(self, code: str) -> dict[str, str]:
        last = self._last[code]
        return {"message": last.text, "at": datetime.fromtimestamp(last.wall, UTC).isoformat("T", "seconds")}


def told(lost: int) -> str | None:
    return f"{lost} records of the kernel log were gone before they were read" if lost else None


def make(config: AgentConfig, sensors: Sensors) -> KernelLog | None:
    path = Path(config.paths.kmsg)
    if not path.exists():
        return None
    kmsg = Kmsg(path)
    try:
        kmsg.open()
    except OSError as exc:
        log.warning("%s: %s; the kernel log is unknown", path, exc.strerror or exc)
    return KernelLog(config.poll.host_s, sensors, kmsg, hold_s=config.probes.kmsg.hold_s)
