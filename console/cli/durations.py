"""Durations on the command line: `90s`, `30m`, `2h`, `1d`."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 365 * 86_400


class Duration(click.ParamType[float]):
    """Seconds as a float, from a number with its unit."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,9})([smhd])", str(value))
        seconds = int(match.group(1)) * _SECONDS[match.group(2)] if match else 0
        if not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is no duration between 1s and 365d such as 90s, 30m, 2h or 1d", param, ctx)
        return float(seconds)
