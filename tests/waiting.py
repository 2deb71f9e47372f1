"""Waiting for a condition with a deadline, so that no test sleeps and hopes."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_S = 0.05


def wait_until(what: str, look: Callable[[], T], timeout_s: float = 40) -> T:
    """The first true answer of ``look``; AssertionError names ``what`` and the last answer when the time is over."""
    deadline = time.monotonic() + timeout_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; last seen: {seen!r}")
        time.sleep(POLL_S)
    return seen


async def eventually(what: str, look: Callable[[], T], timeout_s: float = 40) -> T:
    """``wait_until`` for tests whose code under test runs in the same event loop; ``look`` must be quick."""
    deadline = time.monotonic() + timeout_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; last seen: {seen!r}")
        await asyncio.sleep(POLL_S)
    return seen
