"""The entry point: what is there, what is imported, what every command promises."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from console.cli.lazy import Lazy, LazyGroup
from console.main import COMMANDS, main
from tests.console.conftest import Run


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group of this installation, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], run: Run) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    usage, _, text = result.output.partition("\n")
    assert usage.startswith("Usage:")
    assert re.search(r"\w+ \w+", text)


def test_help_lists_the_commands(run: Run) -> None:
    output = run("--help").output
    assert all(name in output for name in ("agent", "reconciler", "status", "why", "test", "config"))


def test_the_table_tells_of_a_command_what_the_command_tells_of_itself() -> None:
    for name, lazy in COMMANDS.items():
        if lazy.exists():
            assert lazy.load().name == name


def test_version(run: Run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert re.search(r"\d+\.\d+", result.output)


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    result = run("explode")
    assert result.exit_code == 2
    assert "explode" in result.stderr


def test_a_command_whose_module_is_not_installed_is_not_there() -> None:
    group = LazyGroup(
        "group", lazy={"gone": Lazy("console.no.such:thing", "x"), "here": Lazy("console.main:main", "y")}
    )
    context = click.Context(group)
    assert group.list_commands(context) == ["here"]
    assert group.get_command(context, "gone") is None


DAEMONS = [
    ("agent", ["kubernetes", "console.lab", "console.scenario", "reconciler", "rich", "yaml"]),
    ("reconciler", ["console.lab", "console.scenario", "agent", "rich", "yaml"]),
]


@pytest.mark.parametrize(("daemon", "unwanted"), DAEMONS, ids=[name for name, _ in DAEMONS])
def test_a_daemons_command_imports_nothing_of_the_rest(daemon: str, unwanted: list[str]) -> None:
    """Up to and including its help: what comes after is the daemon's own."""
    code = f"""
        import sys
        from console.main import main
        main(["{daemon}", "--help"], standalone_mode=False)
        loaded = [name for name in {unwanted!r} if name in sys.modules]
        sys.exit(f"imported: {{loaded}}" if loaded else 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("daemon", ["agent", "reconciler"])
def test_a_daemon_refuses_a_bad_configuration_in_one_line(daemon: str, run: Run, tmp_path: Path) -> None:
    config = tmp_path / "daemon.toml"
    config.write_text("[http]\nlisten = 9465\n")
    result = run(daemon, "--config", str(config))
    assert result.exit_code == 2
    assert "http.listen" in result.stderr
    assert str(config) in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_an_error_quotes_steers_no_terminal(run: Run) -> None:
    result = run("nodes", "--url", "http://a\x1b]0;gone\x07")
    assert result.exit_code in (2, 3)
    assert result.stderr.strip("\n").isprintable(), repr(result.stderr)
