"""The peers that this node pings on the parameter plane, as the reconciler has given them, for as long as it said."""

from __future__ import annotations

from shared.commands import Peer


class PeerBook:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._peers: tuple[Peer, ...] = ()
        self._until = 0.0

    def give(self, peers: tuple[Peer, ...], *, until: float) -> None:
        """This list instead of the one before, until it expires."""
        self._peers, self._until = peers, until

    def current(self, now: float) -> tuple[Peer, ...]:
        """Empty when none were given or the list has expired."""
        return self._peers if now < self._until else ()
