"""Entry point of the reconciler daemon; `npu-warden reconciler` calls it."""

from __future__ import annotations

import asyncio
import logging
import sys

from reconciler.config import ReconcilerConfig
from reconciler.service import serve
from shared import logs
from shared.config import ConfigError

log = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""Longest time that the planner's thread keeps the interpreter while the loop wants it. With Python's own 5 ms each
send and receive during a plan waits as long, and so do all requests of a burst and the lease's renewal."""
EXIT_FINE = 0
EXIT_DIED = 1
EXIT_UNUSABLE = 2


def run(config: ReconcilerConfig) -> int:
    """Run until SIGTERM; the exit code: 0 told to stop, 1 died of a bug, 2 the configuration cannot be used.

    An API server or a Redis that cannot be reached, missing rights and a missing CustomResourceDefinition are said and
    retried, they end nothing.
    """
    logs.setup()
    sys.setswitchinterval(SWITCH_S)
    try:
        asyncio.run(serve(config))
    except ConfigError as exc:
        print(f"reconciler: {exc}", file=sys.stderr)
        return EXIT_UNUSABLE
    except Exception:
        log.exception("the reconciler ends because one of its loops has died")
        return EXIT_DIED
    return EXIT_FINE
