"""`--watch`: a question asked again and again, on a screen of its own; on a pipe only what has changed."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from console.cli.errors import Unreachable

EVERY_S = 2.0
_HOME, _REST_OF_LINE, _REST_OF_SCREEN, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


def watchable(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command `--watch`. With --json each change is one line. Ctrl-C ends it, with exit code 0."""

    @click.option("--watch", "-w", is_flag=True, help=f"Ask again every {EVERY_S:g} s, until Ctrl-C.")
    @functools.wraps(command)
    def run(*args: Any, watch: bool, **kwargs: Any) -> None:
        if not watch:
            command(*args, **kwargs)
            return
        with contextlib.suppress(KeyboardInterrupt):
            _watch(lambda: command(*args, **kwargs), as_json=bool(kwargs.get("as_json")))

    return run


class _Screen(io.StringIO):
    """Takes what a command prints, and is a terminal where standard output is one: for colours and widths."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def _watch(command: Callable[[], None], *, as_json: bool) -> None:
    shown = None
    if on_terminal := sys.stdout.isatty() and not as_json:
        click.echo(_CLEAR, nl=False)
    while True:
        text = _printed(command)
        if as_json and text.startswith("{"):
            text = json.dumps(json.loads(text), separators=(",", ":")) + "\n"
        if on_terminal:
            click.echo(_HOME + text.replace("\n", f"{_REST_OF_LINE}\n") + _REST_OF_SCREEN, nl=False)
        elif text != shown:
            click.echo(text if as_json or shown is None else f"\n{text}", nl=False)
        sys.stdout.flush()
        shown = text
        time.sleep(EVERY_S)


def _printed(command: Callable[[], None]) -> str:
    """What one round prints. That nobody answers is told like everything else: the next round may be luckier."""
    with contextlib.redirect_stdout(_Screen()) as screen:
        try:
            command()
        except Unreachable as exc:
            click.echo(f"no answer: {exc.message}")
        except SystemExit:  # a finding: the text says it
            pass
    return screen.getvalue()
