"""Blocking looks that may hang in the kernel for ever, as on a dead disk, each in a daemon thread of its own.

The default pool of asyncio is no place for them: a few that hang fill it, then no name is resolved any more, and the
end of the process waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agent.probe import CannotLook

T = TypeVar("T")


class OwnThread:
    """One call at a time. A thread that hangs is left, and ends with the call or with the process.

    `since`: when the call in flight began, on the monotonic clock; None = there is none.
    """

    def __init__(self, what: str) -> None:
        self.since: float | None = None
        self._what = what

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Raises CannotLook while the call before has not come back."""
        if self.since is not None:
            hangs_s = time.monotonic() - self.since
            raise CannotLook(f"the last look ({self._what}) still hangs, for {hangs_s:.0f} s; none is begun beside it")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                tell: Callable[[], None] = partial(done.set_result, work())
            except Exception as exc:  # noqa: BLE001  # told to whoever waits
                tell = partial(done.set_exception, exc)
            self.since = None
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if done.done() else tell())

        self.since = time.monotonic()
        threading.Thread(target=call, name=f"look at {self._what}", daemon=True).start()
        return await done
