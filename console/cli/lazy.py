"""A click group that imports a command's module only when the command runs: the agent starts without the lab's code."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command lives (`module:attribute`) and its line in the group's help, so that help imports nothing."""

    where: str
    help: str

    def load(self) -> click.Command:
        module, _, attribute = self.where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.where} is no click command")
        return command

    def exists(self) -> bool:
        """Whether the module is part of this installation: an image may carry only one daemon's code."""
        try:
            return importlib.util.find_spec(self.where.partition(":")[0]) is not None
        except ModuleNotFoundError:  # a package above it is missing
            return False


class LazyGroup(click.Group):
    """Lists its commands in the order of the table, those of this installation only."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, lazy in self._lazy.items() if lazy.exists()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return lazy.load() if lazy is not None and lazy.exists() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._lazy[name].help) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
