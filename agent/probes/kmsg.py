"""Kernel messages that mean a fault of the host, or a chip whose heartbeat the driver has lost.

A message is a moment and no state: its code holds for `hold_s` after the last one. A lost heartbeat is handed on as an
event of the chip, and the driver's own list decides whether it is so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from agent.config import AgentConfig
from agent.detect.readings import ChipEvent, NodeFinding
from agent.evidence import Recent
from agent.probe import CannotLook, Observation, Sensors
from agent.sensors.kmsg import Kmsg, Message
from agent.sensors.kmsg_patterns import CODES, match
from shared.aio import now
from shared.names import CODE_CARD_LOST

log = logging.getLogger(__name__)

MAX_TEXT = 200


class KernelLog:
    name = "kmsg"
    timeout_s = 5.0

    def __init__(self, period_s: float, sensors: Sensors, kmsg: Kmsg, *, hold_s: float) -> None:
        self.period_s = period_s
        self._sensors, self._kmsg = sensors, kmsg
        self._recent = Recent(window_s=hold_s, limit=1, began=time.monotonic())
        self._last: dict[str, Message] = {}

    async def look(self) -> Observation:
        at = now()
        try:
            messages = self._kmsg.new(at)
        except OSError as exc:
            raise CannotLook(f"{self._kmsg.path}: {exc.strerror or exc}") from exc
        events = self._sort(messages, at.mono)
        return Observation(events=tuple(events), node=tuple(self._findings(at.mono)))

    def _sort(self, messages: Iterable[Message], mono: float) -> list[ChipEvent]:
        """Note what concerns the node; return what concerns chips."""
        events: list[ChipEvent] = []
        chips = self._sensors.chips.enumeration.chips
        for message in messages:
            found = match(message.text)
            if found is None:
                continue
            code, groups = found
            if code == CODE_CARD_LOST and int(groups["chip"]) in chips:
                log.error("kernel: %s; the driver is asked about that chip", message.text)
                events.append(ChipEvent(int(groups["chip"]), CODE_CARD_LOST, "occur", name=message.text))
                continue
            if code == CODE_CARD_LOST:  # of a chip that the driver does not list: the node must not keep it for itself
                code = "NW-KMSG-NPU"
            self._recent.note(code, mono)
            self._last[code] = message
        return events

    def _findings(self, mono: float) -> Iterable[NodeFinding]:
        for code in CODES:
            active = self._recent.judge(code, mono)
            if active is not None:
                yield NodeFinding(code, active, evidence=self._evidence(code) if active else {})

    def _evidence(self, code: str) -> dict[str, str]:
        last = self._last[code]
        return {"message": last.text[:MAX_TEXT], "at": datetime.fromtimestamp(last.wall, UTC).isoformat("T", "seconds")}


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
