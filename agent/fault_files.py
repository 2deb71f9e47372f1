"""MindCluster's fault-code files in paths.config_dir (faultCode.json, faultCustomization.json), re-read on change."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)


class FaultFiles:
    """A mounted ConfigMap changes by swapping a symlink, so contents are compared, not times."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, str] = {}
        self._unreadable: dict[str, str] = {}

    def changed(self) -> dict[str, str | None]:
        """The files whose content is new since the last call, by name; None stands for one that is gone."""
        try:
            paths = sorted(self._directory.glob("*.json"))
        except OSError as exc:
            log.warning("%s: %s; the fault codes stay as they are", self._directory, exc)
            return {}
        files: dict[str, str] = {}
        unreadable: dict[str, str] = {}
        for path in paths:
            try:
                files[path.name] = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as exc:
                unreadable[path.name] = str(exc)
                if self._unreadable.get(path.name) != str(exc):
                    log.warning("%s: cannot be read (%s); what it said before stays", path, exc)
                if path.name in self._seen:
                    files[path.name] = self._seen[path.name]
        new: dict[str, str | None] = {name: text for name, text in files.items() if text != self._seen.get(name)}
        new |= dict.fromkeys(self._seen.keys() - files.keys())
        self._seen, self._unreadable = files, unreadable
        return new
