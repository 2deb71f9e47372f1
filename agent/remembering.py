"""Probes that must know after a restart what they knew before: baselines of counters, what has been judged already.

A probe that has the two methods of `Remembers` is asked at every save and told once at the start. What one of them
cannot read or say of its own memory costs that probe its history and nothing else: least of all the report, which is
saved first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from agent.counting import Kept as Counted
from agent.counting import Rising
from agent.probe import Probe
from shared.aio import now
from shared.model import Instant

log = logging.getLogger(__name__)


class RemembersCounters:
    """A probe whose whole memory is one set of counters."""

    _rising: Rising

    def memory(self) -> Counted:
        return self._rising.memory(now())

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        self._rising.recall(msgspec.json.decode(kept, type=Counted), at, same_boot=same_boot)


@runtime_checkable
class Remembers(Protocol):
    """`memory` gives anything msgspec can write as JSON; `recall` gets those bytes and may raise MsgspecError.

    same_boot: the monotonic clock and the kernel's counters have gone on since they were written.
    """

    name: str

    def memory(self) -> Any: ...
    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None: ...


def remember(probes: Iterable[Probe], before: Mapping[str, msgspec.Raw] | None = None) -> dict[str, msgspec.Raw]:
    """What the probes want to be told after a restart, by their names; of one that cannot say it, what was `before`."""
    kept: dict[str, msgspec.Raw] = {}
    for probe in probes:
        if not isinstance(probe, Remembers):
            continue
        try:
            kept[probe.name] = msgspec.Raw(msgspec.json.encode(probe.memory()))
        except Exception:
            log.exception("probe %s: what it knows cannot be saved; what was saved before stays", probe.name)
            if before is not None and probe.name in before:
                kept[probe.name] = before[probe.name]
    return kept


def recall(probes: Iterable[Probe], kept: Mapping[str, msgspec.Raw], at: Instant, *, same_boot: bool) -> None:
    for probe in probes:
        if isinstance(probe, Remembers) and probe.name in kept:
            try:
                probe.recall(bytes(kept[probe.name]), at, same_boot=same_boot)
            except Exception as exc:
                why = f"{type(exc).__name__}: {exc}"
                log.exception("probe %s: what it knew before the restart cannot be read (%s)", probe.name, why)
