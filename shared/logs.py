"""Logging of the daemons: one line per record, logfmt-like, to stderr; secrets never reach it."""

from __future__ import annotations

import logging
import sys


def setup(level: str = "INFO") -> None:
    """For the daemons' entry points. Libraries below WARNING stay silent: their chatter hides ours."""
    logging.basicConfig(
        level=logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    for name in ("agent", "reconciler", "shared", "console"):
        logging.getLogger(name).setLevel(level)
