"""Probes that must know after a restart what they knew before: baselines of counters, what has been judged already.

A probe that has the two methods of `Remembers` is asked at every save and told once at the start. What one of them
cannot read of its own memory costs that probe its history and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from agent.probe import Probe
from shared.model import Instant

log = logging.getLogger(__name__)


@runtime_checkable
class Remembers(Protocol):
    """`memory` gives anything msgspec can write as JSON; `recall` gets those bytes and may raise MsgspecError.

    same_boot: the monotonic clock and the kernel's counters have gone on since they were written.
    """

    name: str

    def memory(self) -> Any: ...
    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None: ...


def remember(probes: Iterable[Probe]) -> dict[str, msgspec.Raw]:
    """What the probes want to be told after a restart, by their names."""
    return {
        probe.name: msgspec.Raw(msgspec.json.encode(probe.memory())) for probe in probes if isinstance(probe, Remembers)
    }


def recall(probes: Iterable[Probe], kept: Mapping[str, msgspec.Raw], at: Instant, *, same_boot: bool) -> None:
    for probe in probes:
        if isinstance(probe, Remembers) and probe.name in kept:
            try:
                probe.recall(bytes(kept[probe.name]), at, same_boot=same_boot)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
                log.error("probe %s: what it knew before the restart cannot be read (%s)", probe.name, exc)
