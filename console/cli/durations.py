"""Durations on the command line: `90s`, `30m`, `2h`, `1d`."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_YEAR_S = 365 * 86_400
_EXAMPLES = {"90s": 90, "30m": 1800, "2h": 7200, "1d": 86_400}


class Duration(click.ParamType[float]):
    """Seconds as a float, from a number with its unit; at most `longest_s`."""

    name = "duration"

    def __init__(self, longest_s: int = _YEAR_S) -> None:
        self._longest_s = longest_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,9})([smhd])", str(value))
        seconds = int(match.group(1)) * _SECONDS[match.group(2)] if match else 0
        if not 0 < seconds <= self._longest_s:
            examples = [text for text, at in _EXAMPLES.items() if at <= self._longest_s]
            said = f"{', '.join(examples[:-1])} or {examples[-1]}"
            self.fail(f"{value!r} is no duration between 1s and {_text(self._longest_s)} such as {said}", param, ctx)
        return float(seconds)


def _text(seconds: int) -> str:
    """In the largest unit that leaves nothing over."""
    unit = max((one for one in _SECONDS if seconds % _SECONDS[one] == 0), key=lambda one: _SECONDS[one])
    return f"{seconds // _SECONDS[unit]}{unit}"
