"""As many agents as there are nodes, as one process that writes their reports to Redis. Started by `steady`.

    python -m tests.bench.agents REDIS_URL NODES CHANGES_A_SECOND

Nodes are `node-00000` and up. Each sends its heartbeat every 15 s, evenly spread, with 16 chips in it; and so many
changes a second go round them all: a fault that asks for nothing comes, and goes a second later. Ends by SIGKILL.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

import redis

from shared.model import Fault, FaultLevel
from shared.names import EVENTS_STREAM, report_key
from shared.wire import encode
from tests.bench.fleet import a_report, broken, note_of

HEARTBEAT_S, CHIPS, TICK_S, LASTS_S = 15.0, 16, 0.05, 1.0


class Agents:
    def __init__(self, client: redis.Redis, nodes: int, changes: int) -> None:
        self._redis, self._nodes, self._changes = client, nodes, changes
        self._seqs = [1] * nodes
        self._beat = self._next = 0
        self._open: dict[int, Fault] = {}
        self._ends: deque[tuple[float, int]] = deque()

    def run(self) -> None:
        began, beats, raised = time.monotonic(), 0, 0
        while True:
            pipe, now = self._redis.pipeline(transaction=False), time.monotonic()
            while self._ends and self._ends[0][0] <= now:
                _, number = self._ends.popleft()
                del self._open[number]
                self._say(pipe, number, changed=True)
            for _ in range(int((now - began) * self._changes / 2) - raised):
                if self._next not in self._open:
                    self._open[self._next] = broken(FaultLevel.NOT_HANDLE)
                    self._ends.append((now + LASTS_S, self._next))
                    self._say(pipe, self._next, changed=True)
                self._next = (self._next + 1) % self._nodes
                raised += 1
            for _ in range(int((now - began) * self._nodes / HEARTBEAT_S) - beats):
                self._say(pipe, self._beat)
                self._beat = (self._beat + 1) % self._nodes
                beats += 1
            pipe.execute()
            time.sleep(max(0.0, now + TICK_S - time.monotonic()))

    def _say(self, pipe: Any, number: int, *, changed: bool = False) -> None:
        self._seqs[number] += 1
        name, faults = f"node-{number:05}", (self._open[number],) if number in self._open else ()
        made = a_report(name, *faults, seq=self._seqs[number], chips=CHIPS)
        pipe.set(report_key(name), encode(made), ex=3600)
        if changed:
            pipe.xadd(EVENTS_STREAM, {"note": encode(note_of(made))}, maxlen=100_000, approximate=True)


if __name__ == "__main__":
    Agents(redis.Redis.from_url(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])).run()
