"""Ctrl-C, SIGTERM and a closed terminal end a lab command as the end of its block does: everything is put away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(work: Coroutine[Any, Any, T]) -> T | None:
    """Run to the end, or to the first signal: then None, after everything `work` has started has ended."""

    async def guarded() -> T | None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end() -> None:
            for number in SIGNALS:  # once: an impatient second Ctrl-C must not cut the putting away short
                loop.add_signal_handler(number, lambda: None)
            task.cancel()

        for number in SIGNALS:
            loop.add_signal_handler(number, end)
        try:
            return await work
        except asyncio.CancelledError:
            return None

    return asyncio.run(guarded())
