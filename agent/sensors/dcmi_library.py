"""Where libdcmi.so is."""

from __future__ import annotations

import os
from pathlib import Path

PLACES = (
    "/usr/local/dcmi",
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/lib64/driver",
    "/usr/lib64",
)
"""Where driver packages put it."""
NAME = "libdcmi.so"


def find_library(configured: str | None) -> Path | None:
    """The configured file, or the first found in LD_LIBRARY_PATH and the usual places; None when there is none."""
    if configured:
        return Path(configured) if Path(configured).is_file() else None
    searched = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")), *PLACES]
    return next((path for place in searched if (path := Path(place) / NAME).is_file()), None)
