"""MindCluster's fault-code files in paths.config_dir, re-read on change."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

MAX_BYTES = 4 << 20
"""A ConfigMap holds 1 MiB at most; a larger file is something else."""


class Look(msgspec.Struct, frozen=True):
    """One look at the directory: texts by file name, and why files (or the directory itself, by its path) could not be
    read. listed: whether it could be told which files there are."""

    texts: Mapping[str, str]
    unreadable: Mapping[str, str]
    listed: bool = True

    @classmethod
    def in_vain(cls, directory: Path, why: str) -> Look:
        return cls({}, {str(directory): why}, listed=False)


def look(directory: Path) -> Look:
    """Blocks: a ConfigMap is on the kubelet's disk. A directory that is not there has no files."""
    texts: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    except FileNotFoundError:
        names = []
    except OSError as exc:
        return Look.in_vain(directory, exc.strerror or str(exc))
    for name in names:
        if not name.isprintable():  # nothing of ours, and no name that could be told or counted
            unreadable[ascii(name)] = "its name is not printable text"
            continue
        try:
            texts[name] = _text(directory / name)
        except (OSError, UnicodeDecodeError) as exc:
            unreadable[name] = (exc.strerror or str(exc)) if isinstance(exc, OSError) else "not UTF-8 text"
    return Look(texts, unreadable)


class FaultFiles:
    """A mounted ConfigMap changes by swapping a symlink, so contents are compared, not times.

    What cannot be read changes nothing: a file keeps what it said, a directory that cannot be listed keeps its files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, str] = {}
        self._unreadable: Mapping[str, str] = {}

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Why files, or the directory itself (by its path), could not be read at the last look."""
        return self._unreadable

    def changed(self, found: Look) -> dict[str, str | None]:
        """The files whose content is new since the last call, by name; None stands for one that is gone."""
        kept = self._seen.keys() & found.unreadable.keys() if found.listed else self._seen.keys()
        files = {name: self._seen[name] for name in kept} | dict(found.texts)
        for name, why in found.unreadable.items():
            if self._unreadable.get(name) != why:
                log.warning("%s: cannot be read (%s); what it said before stays in force", self._directory / name, why)
        new: dict[str, str | None] = {name: text for name, text in files.items() if text != self._seen.get(name)}
        new |= dict.fromkeys(self._seen.keys() - files.keys())
        self._seen, self._unreadable = files, found.unreadable
        return new


def _text(path: Path) -> str:
    """Raises OSError, UnicodeDecodeError. A pipe or device is not opened: reading one may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("not a regular file")
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"more than {MAX_BYTES} bytes")
    return content.decode("utf-8")
