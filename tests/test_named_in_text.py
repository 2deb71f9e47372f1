"""Commands, options and metrics that prose, messages and the page name are there."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from console.main import main
from tests.test_reference import ROOT, metric_names

DOCS = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "cli.md" and path.parent.name != "adr")
SAYING = [
    *(path for part in ("reconciler", "agent", "shared", "console") for path in sorted((ROOT / part).rglob("*.py"))),
    *sorted((ROOT / "reconciler" / "page" / "static").glob("*.*")),
]
COMMAND = re.compile(r"npu-warden((?: [a-z][a-z-]*)+)([^`<\n#|&>]*)")
METRIC = re.compile(r"npuwarden_(?:agent|reconciler)_[a-z_]*[a-z]")


def commands(path: Path) -> Iterator[str]:
    """In backticks or as HTML's code, and in a document's indented lines."""
    text = path.read_text(encoding="utf-8")
    yield from re.findall(r"(?:`|<code>)(npu-warden [^`<\n]+)", text)
    if path.suffix == ".md":
        yield from re.findall(r"^ *(npu-warden .+)$", text, re.MULTILINE)


def unknown(text: str) -> Iterator[str]:
    """What of a command line there is not."""
    match = COMMAND.match(text)
    if match is None or " ... " in text:
        return
    command: click.Command = main
    for word in match[1].split():
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(main), word)
        if found is None:
            yield word
            return
        command = found
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    yield from (one for one in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text) if one not in options)


def test_a_command_that_is_named_is_there() -> None:
    read = [(path, text) for path in [ROOT / "README.md", *DOCS, *SAYING] for text in commands(path)]
    assert len(read) > 100
    wrong = {f"{path.relative_to(ROOT)}: {text}": bad for path, text in read if (bad := list(unknown(text)))}
    assert wrong == {}


@pytest.mark.parametrize(("text", "bad"), [("npu-warden faults --node N", ["--node"]), ("npu-warden mend", ["mend"])])
def test_one_that_is_not_there_is_found(text: str, bad: list[str]) -> None:
    assert list(unknown(text)) == bad


def test_a_metric_that_is_named_is_there() -> None:
    series = metric_names()
    known = series | {name.removesuffix("_bucket") for name in series}
    named = {(path.name, name) for path in DOCS for name in METRIC.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 50
    # `..._page_*` names several.
    wrong = [one for one in named if one[1] not in known and not any(name.startswith(f"{one[1]}_") for name in known)]
    assert wrong == []
