"""How every command ends badly: one clear line on stderr and the exit code that fits."""

from __future__ import annotations

import click

from console.cli.output import harmless

FINE, FINDING, USAGE, UNREACHABLE = 0, 1, 2, 3


class _Said(click.ClickException):
    """The text may quote a node, a person or whatever answered."""

    def format_message(self) -> str:
        return harmless(self.message)


class Unusable(_Said):
    """Exit 2: a file, a value or a name that cannot be used. The text names it."""

    exit_code = USAGE


class Unreachable(_Said):
    """Exit 3: what was asked does not answer, or cannot now. The text names the URL."""

    exit_code = UNREACHABLE
