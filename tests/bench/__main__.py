"""Runs benches by name, all of them without one, and prints one JSON object a line.

    python -m tests.bench [NAME...]

A bench is a module of this package with `run() -> Iterator[str]`. One that fails, or takes longer than it may, ends
with a line that says so and does not keep the next from running; the figures it had by then stand. The last line of
each is how long it took.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

from tests.bench.line import line

log = logging.getLogger(__name__)

BENCHES = {
    "plan": 40.0,
    "agent": 150.0,
    "page": 25.0,
    "event_to_taint": 60.0,
    "fault_to_running": 65.0,
    "report_to_taint": 60.0,
    "burst_500": 60.0,
    "steady": 165.0,
    "cold_start": 145.0,
    "restart": 60.0,
    "failover": 70.0,
}
"""Each with the seconds it may take: on two quiet cores half to nine tenths of them, and all together 15 minutes. The
cheap ones first; from the fourth on they need the real control plane."""


class TookTooLong(Exception):
    """A bench was still at it when its time was over."""


def main(names: list[str]) -> int:
    """Exit code: 0, 1 when a bench broke, 2 for a name that is none. A missed goal is a figure and no failure."""
    if strangers := [name for name in names if name not in BENCHES]:
        print(f"no bench is called {', '.join(strangers)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    return max(run(name, BENCHES[name]) for name in names or BENCHES)


def run(name: str, longest_s: float) -> int:
    """One bench, its lines printed as they come. 1 when it broke."""
    began, code = time.monotonic(), 0
    try:
        with _at_most(longest_s):
            for told in importlib.import_module(f"tests.bench.{name}").run():
                print(told, flush=True)
    except Exception as exc:
        log.exception("bench %s broke", name)
        print(json.dumps({"bench": name, "error": f"{type(exc).__name__}: {exc}"}), flush=True)
        code = 1
    print(line(f"{name}_took", "s", [time.monotonic() - began], goal=longest_s, note="the bench itself"), flush=True)
    return code


@contextlib.contextmanager
def _at_most(longest_s: float) -> Iterator[None]:
    """Raises TookTooLong in the block, wherever it is by then; what it has started is ended on the way out."""

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"not through after {longest_s:g} s; a machine that does nothing else needs less")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
