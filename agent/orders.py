"""What an agent does for each kind of command (shared/commands.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from agent.commands import Action, Refused
from agent.detect.detector import Detector
from agent.drill import DrillBench
from agent.peer_book import PeerBook
from shared.aio import now
from shared.commands import Body, DrillStart, DrillStop, Peers, ReleaseSeparation, Reread


class Orders:
    """poll: makes all chips be looked at soon. changed: detection has something new to report."""

    def __init__(
        self,
        detector: Detector,
        peers: PeerBook,
        drills: DrillBench,
        *,
        poll: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._detector, self._peers, self._drills = detector, peers, drills
        self._poll, self._changed = poll, changed

    def table(self) -> Mapping[type[Body], Action]:
        """Every kind of command has its row."""
        return {
            Peers: self._take_peers,
            Reread: self._reread,
            ReleaseSeparation: self._release,
            DrillStart: self._start_drill,
            DrillStop: self._stop_drill,
        }

    async def _take_peers(self, body: Peers, left_s: float) -> str:
        self._peers.give(body.peers, until=time.monotonic() + left_s)
        return f"peers are {', '.join(peer.node for peer in body.peers) or 'nobody'} for {left_s:.0f} s"

    async def _reread(self, body: Reread, _left_s: float) -> str:
        self._poll()
        return f"all chips are read now: {body.why or 'no reason given'}"

    async def _release(self, body: ReleaseSeparation, _left_s: float) -> str:
        if not self._detector.operator_release(body.chip, body.code, now()):
            raise Refused(f"chip {body.chip} has no manual separation of {body.code}; nothing to release")
        self._changed()
        return f"the manual separation of {body.code} on chip {body.chip} is released: {body.why or 'no reason given'}"

    async def _start_drill(self, body: DrillStart, left_s: float) -> str:
        at = now()
        return self._drills.start(body, left_s, self._detector.view(at), at)

    async def _stop_drill(self, body: DrillStop, _left_s: float) -> str:
        return self._drills.stop(body.drill)
