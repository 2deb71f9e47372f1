"""Runs benches by name, all of them without one, and prints one JSON object a line.

    python -m tests.bench [NAME...]

A bench is a module of this package with `run() -> Iterator[str]`. One that fails does not keep the next from running.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys

log = logging.getLogger(__name__)

BENCHES = (
    "plan",
    "agent",
    "page",
    "event_to_taint",
    "fault_to_running",
    "report_to_taint",
    "burst_500",
    "steady",
    "cold_start",
    "restart",
    "failover",
)
"""The cheap ones first; from the fourth on they need the real control plane."""


def main(names: list[str]) -> int:
    """Exit code: 0, 1 when a bench broke, 2 for a name that is none. A missed goal is a figure and no failure."""
    if strangers := [name for name in names if name not in BENCHES]:
        print(f"no bench is called {', '.join(strangers)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    broken = 0
    for name in names or BENCHES:
        try:
            for line in importlib.import_module(f"tests.bench.{name}").run():
                print(line, flush=True)
        except Exception as exc:
            log.exception("bench %s broke", name)
            print(json.dumps({"bench": name, "error": f"{type(exc).__name__}: {exc}"}), flush=True)
            broken = 1
    return broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
