"""Refusals as a person sorts them: refused, waiting, only observed, and well and therefore left alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from console.cli.output import print_table

LEFT_ALONE = frozenset({"chip-not-used"})
WAITING = frozenset(
    {"muted", "unconfirmed", "isolating", "healed", "capacity", "budget", "min-ready", "probation", "allocatable"}
)
"""These end by themselves, or go on as soon as there is room (docs/reasons.md)."""

OBSERVED = "observe-only"

Hold = dict[str, Any]


def open_holds(holds: Iterable[Hold]) -> list[Hold]:
    """Without those of subjects that are well."""
    return [hold for hold in holds if hold["reason"] not in LEFT_ALONE]


def left_alone(holds: Iterable[Hold]) -> list[Hold]:
    return [hold for hold in holds if hold["reason"] in LEFT_ALONE]


def print_holds(holds: Iterable[Hold]) -> None:
    """A table of what waits, one of what observe_only keeps back and one of what is refused, where there is any."""
    found = open_holds(holds)
    _table("waiting", [hold for hold in found if hold["reason"] in WAITING])
    _table("would do", [hold for hold in found if hold["reason"] == OBSERVED])
    _table("refused", [hold for hold in found if hold["reason"] not in {*WAITING, OBSERVED}])


def print_left_alone(holds: Iterable[Hold]) -> None:
    _table("left alone", left_alone(holds))


def _table(title: str, holds: list[Hold]) -> None:
    if holds:
        rows = ((hold["subject"], hold["reason"], hold["message"]) for hold in holds)
        print_table(f"\n{title}", ("SUBJECT", "REASON", "MESSAGE"), rows)
