"""Paths of the host that the agent may not be allowed to look at: those are unknown, and not absent."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def may_be_directory(path: Path) -> bool:
    """Whether a directory is there, or it cannot be seen whether one is: why, is for the look to tell."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as exc:
        return exc.errno not in _ABSENT


def why_not(exc: OSError) -> str:
    """What could not be read and why; where it may not be, what to do."""
    said = f"{exc.filename}: {exc.strerror}" if exc.filename and exc.strerror else str(exc)
    if not isinstance(exc, PermissionError):
        return said
    return (
        f"{said}; the agent needs root, `privileged` and hostPID (deploy/agent.yaml) for what lies behind /proc, "
        "or agent.toml [paths] must name a directory that it may read"
    )
