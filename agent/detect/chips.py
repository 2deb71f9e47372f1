"""What is known of one chip between its readings: who it is, when it was last read, and why it cannot be read now."""

from __future__ import annotations

import msgspec

from agent.detect.readings import ChipEvent, ChipIdentity

LOST_ERRORS = frozenset({-8007, -8008, -8012})
"""Return codes that mean the driver has no such chip (any more): invalid id, does not exist, not ready
(dcmi_interface_api.h). Any other error is one of the call and says nothing about the chip."""
UNSUPPORTED_ERRORS = frozenset({-8255, -8002})

EVENTS_PER_MINUTE = 1000
"""Above it a chip's events are noise: its code list is read instead (MindCluster: FaultCallBackRateLimit)."""
RESYNC_S = 1.0
"""A chip is read again so long after its events went wrong: later events of the same burst cost no second read."""
NOT_READ_YET = "not read since the agent started"
CHANGE_TOLD_S = 3600.0
"""So long a chip is said to have been replaced: long enough for a person who looks what has become of the old one."""
_MARKS = (("die", "die"), ("serial", "serial number"), ("pci", "PCI address"))
"""What tells chips apart, the surest first. An address alone is none of the chip's own, but all there is without."""


class ChipState(msgspec.Struct, omit_defaults=True):
    """codes, health: the newest good reading, at monotonic time seen_at. unread: why the newest reading says nothing,
    since wall time unread_since. lost_polls: polls in a row in which the chip was missing.

    enumerated: the driver has listed the chip at least once; an event may name one that it never lists.
    link_unknown: why the port's state is not known, since wall time link_unknown_since; link_seen_at is monotonic.
    alarm_polls: polls in a row in which its health was bad and its code list could not be had.
    changed_at: monotonic time at which it took the place of another, while that is told.
    """

    identity: ChipIdentity
    enumerated: bool = False
    codes: tuple[str, ...] = ()
    health: int | None = None
    seen_at: float | None = None
    unread: str | None = NOT_READ_YET
    unread_since: float = 0.0
    lost_polls: int = 0
    link_unknown: str | None = None
    link_unknown_since: float = 0.0
    link_seen_at: float | None = None
    resync_at: float | None = None
    serial: int | None = None
    minute_from: float = 0.0
    minute_count: int = 0
    alarm_polls: int = 0
    changed_at: float | None = None

    @property
    def phy(self) -> int:
        return self.identity.phy

    def recognise(self, who: ChipIdentity) -> None:
        """The driver lists the chip. What it can no longer tell of a failing one is kept from before."""
        self.enumerated = True
        if who == self.identity:
            return
        known = {name: value for name, value in msgspec.structs.asdict(who).items() if value is not None}
        self.identity = msgspec.structs.replace(self.identity, **known)

    def replaced_by(self, who: ChipIdentity) -> dict[str, str] | None:
        """What tells that `who` is another chip in this one's place, None when nothing does: the first mark that is
        known of both decides, whatever the others say."""
        for name, words in _MARKS:
            was, now_is = getattr(self.identity, name), getattr(who, name)
            if was is not None and now_is is not None:
                return None if was == now_is else {"by": words, "was": was, "is": now_is}
        return None

    def admits(self, event: ChipEvent, at: float) -> bool:
        """Whether to take the event as news. A storm or a gap in the serial numbers asks for a reading instead."""
        if event.serial is not None:
            if self.serial is not None and event.serial != self.serial + 1:
                self.want_reading(at + RESYNC_S)
            self.serial = event.serial
        if at - self.minute_from > 60:
            self.minute_from, self.minute_count = at, 0
        self.minute_count += 1
        if self.minute_count <= EVENTS_PER_MINUTE:
            return True
        self.want_reading(at + RESYNC_S)
        return False

    def want_reading(self, at: float) -> None:
        """Have the code list read at `at`, or earlier when that is planned already."""
        self.resync_at = at if self.resync_at is None else min(at, self.resync_at)

    def cannot_read(self, why: str, wall: float) -> None:
        if self.unread is None or self.unread == NOT_READ_YET:
            self.unread_since = wall
        self.unread = why

    def cannot_see_link(self, why: str, wall: float) -> None:
        if self.link_unknown is None:
            self.link_unknown_since = wall
        self.link_unknown = why

    def off_bus(self, pci: frozenset[str] | None) -> bool:
        """The PCI bus was read and the chip is not on it."""
        return pci is not None and self.identity.pci is not None and self.identity.pci not in pci
