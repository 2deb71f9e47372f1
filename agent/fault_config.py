"""The fault-code files of paths.config_dir, kept in force: read, handed to detection, and said where they are wrong."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from agent.detect.complaints import WHOLE, Complaint
from agent.detect.detector import Detector
from agent.detect.overlay import Override
from agent.fault_files import FaultFiles, Look, look
from agent.metrics import Metrics
from agent.own_thread import OwnThread
from agent.probe import CannotLook
from shared.aio import now

log = logging.getLogger(__name__)


PATIENCE_S = 5.0


class FaultConfig:
    """Detection gets the files by `refresh`, and by nothing else."""

    def __init__(self, directory: Path, detector: Detector, metrics: Metrics) -> None:
        self.directory = directory
        self._files = FaultFiles(directory)
        self._detector, self._metrics = detector, metrics
        self._counted: set[str] = set()
        self._thread = OwnThread("the fault-code files")
        self._parser = OwnThread("parsing the fault-code files")

    async def refresh(self) -> bool:
        """Whether a file has come, changed or gone. Files are read and parsed off the event loop: a disk may hang, and
        a large file takes its time. What is not used is logged once for each change."""
        changed = self._files.changed(await self._look())
        if changed:
            read = await self._parser.run(lambda: self._detector.overlay.parse(changed))
            for complaint in self._detector.configure(read, now()):
                log.warning("%s: %s", self.directory, complaint)
            for name, text in changed.items():
                if text is None:
                    log.warning("%s: %s is gone; the built-in levels and rules hold again", self.directory, name)
                elif (name, True) in self.files():
                    log.info("%s: %s is in force", self.directory, name)
        self._count()
        return bool(changed)

    async def _look(self) -> Look:
        """Within PATIENCE_S. What hangs is a directory that cannot be read."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._thread.run(lambda: look(self.directory))
        except (TimeoutError, CannotLook):  # the second: the look before still hangs
            return Look.in_vain(self.directory, f"no answer within {PATIENCE_S:g} s")

    def overrides(self) -> list[Override]:
        """Each rule in force that differs from what ships."""
        return self._detector.overlay.overrides()

    def rules_of(self, code: str) -> list[Override]:
        """Every rule in force for one code, what ships too."""
        return self._detector.rules_of(code)

    def bad_entries(self) -> list[Complaint]:
        """Everything in the directory that is not used as it stands."""
        unreadable = [
            Complaint(name, WHOLE, f"cannot be read ({why}); what it said before stays in force")
            for name, why in self._files.unreadable.items()
        ]
        return unreadable + self._detector.overlay.complaints

    def files(self) -> list[tuple[str, bool]]:
        """Each file that is there, and whether its newest content is in force."""
        overlay = self._detector.overlay
        bad = {one.file for one in self.bad_entries() if one.key == WHOLE}
        return [(name, name not in bad) for name in sorted(overlay.files | bad)]

    def _count(self) -> None:
        """A series for each file that is there, zero for a good one."""
        bad = [complaint.file for complaint in self.bad_entries()]
        names = {name for name, _ in self.files()}
        for name in names:
            self._metrics.config_bad_entries.labels(name).set(bad.count(name))
        for name in self._counted - names:
            self._metrics.config_bad_entries.remove(name)
        self._counted = names
