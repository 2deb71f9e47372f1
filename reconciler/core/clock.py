"""Times on the wire: RFC 3339 text and Unix seconds, and the earliest moment at which a decision changes by itself."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(wall: float) -> str:
    """Unix seconds to `2026-01-01T01:00:00.250Z`; milliseconds, because a whole recovery takes a second or two."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(wall: float) -> str:
    """Unix seconds to `2026-01-01T01:00:00Z`: the precision of metav1.Time (conditions, taints, events)."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def parse(text: str | None) -> float | None:
    """RFC 3339 to Unix seconds; None for None and for what is no time (an annotation edited by hand)."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def span(seconds: float) -> str:
    """A duration for people: `0.8s`, `42.0s`, `14m05s`, `3h07m`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


class Alarm:
    """Collects moments at which something is due; `at` is the earliest one that lies ahead (monotonic seconds)."""

    def __init__(self, now: float) -> None:
        self._now = now
        self.at: float | None = None

    def ring(self, at: float) -> None:
        if at > self._now and (self.at is None or at < self.at):
            self.at = at
