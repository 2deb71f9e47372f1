"""How every command ends badly: one clear line on stderr and the exit code that fits."""

from __future__ import annotations

import click

FINE, FINDING, USAGE, UNREACHABLE = 0, 1, 2, 3


class Unusable(click.ClickException):
    """Exit 2: a file, a value or a name that cannot be used. The text names it."""

    exit_code = USAGE


class Unreachable(click.ClickException):
    """Exit 3: what was asked does not answer, or cannot now. The text names the URL."""

    exit_code = UNREACHABLE
