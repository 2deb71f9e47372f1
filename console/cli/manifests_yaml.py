"""YAML text as documents with line numbers; a line with wrong indentation is told, set right and read on.

Nothing is built from the text but nodes, so no tag can do harm. Lines count from 1, in the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

MAX_REPAIRS = 20

_KEY = re.compile(r"""^(?P<indent> *(?:- +)*)(?P<key>"[^"]+"|'[^']+'|[^\s#:"'{}\[\],-][^\s#:]*)\s*:(\s|$)""")
_SEPARATOR = re.compile(r"^---(\s|$)")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend. line: in the file, from 1. document: `Kind name`, empty where that cannot be read."""

    line: int
    text: str
    document: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document. root None: it cannot be read, or is empty. problems: of the text itself."""

    root: yaml.Node | None
    first_line: int
    problems: tuple[Problem, ...]

    def line(self, node: yaml.Node) -> int:
        return self.first_line + int(node.start_mark.line)

    def name(self, node: yaml.Node) -> str:
        """`Kind name` of an object."""
        metadata = member(node, "metadata")
        name = text_of(member(metadata, "name")) or text_of(member(metadata, "generateName"))
        return f"{text_of(member(node, 'kind'))} {name}".strip()


def pairs(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping, those that `<<` merges into it included; nothing for any other node."""
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    own = {text_of(key_node) for key_node, _ in entries}
    for key_node, value in entries:
        if key_node.tag == "tag:yaml.org,2002:merge" and isinstance(value, yaml.MappingNode):
            yield from (entry for entry in value.value if text_of(entry[0]) not in own)
        else:
            yield key_node, value


def member(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The value of a key of a mapping; None where there is none."""
    return next((value for key_node, value in pairs(node) if text_of(key_node) == key), None)


def key_of(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The key itself, for its line; None where there is none."""
    return next((key_node for key_node, _ in pairs(node) if text_of(key_node) == key), None)


def text_of(node: yaml.Node | None) -> str:
    """What a scalar says, as it is written; empty for any other node."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def documents(text: str) -> Iterator[Document]:
    """The documents of a file, each read alone: one that is broken hides no other."""
    start, lines = 0, text.splitlines()
    bounds = [number for number, line in enumerate(lines) if _SEPARATOR.match(line)]
    for end in (*bounds, len(lines)):
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines[start:end]):
            yield _document(lines[start:end], start + 1)
        start = end
    if not text.strip():
        yield Document(None, 1, ())


def _document(lines: list[str], first_line: int) -> Document:
    problems: list[Problem] = []
    while True:
        try:
            root = yaml.compose("\n".join(lines) + "\n", Loader=yaml.SafeLoader)
        except RecursionError:
            return Document(None, first_line, (Problem(first_line, "nested too deeply to be read"),))
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            at = int(mark.line) if mark is not None else 0
            repaired = _repaired(lines, at, first_line)
            if repaired is None or len(problems) >= MAX_REPAIRS:
                problems.append(Problem(first_line + at, f"not YAML: {exc.problem or exc.context}"))
                return Document(None, first_line, tuple(problems))
            line, told = repaired
            problems.append(Problem(first_line + at, told))
            lines = [*lines[:at], line, *lines[at + 1 :]]
        except yaml.YAMLError as exc:
            return Document(None, first_line, (Problem(first_line, f"not YAML: {' '.join(str(exc).split())}"),))
        else:
            return Document(root, first_line, tuple(problems))


def _repaired(lines: list[str], at: int, first_line: int) -> tuple[str, str] | None:
    """(the line with the indentation of the key above it, what was wrong); None where indentation is not the matter."""
    found = _KEY.match(lines[at]) if at < len(lines) else None
    above = list(_keys_before(lines, at))
    if found is None or "-" in found["indent"] or not above:
        return None
    has, needs = len(found["indent"]), above[0][0]
    if has == needs:
        return None
    parent = next((f"under `{key}:` (line {first_line + at})" for indent, key, at in above if indent < needs), None)
    told = f"`{found['key']}` is indented by {has} blanks, its neighbours by {needs}"
    belongs = f"it belongs {parent or 'at the top level'}, indented by {needs}"
    return " " * needs + lines[at].lstrip(" "), f"not YAML: {told}: {belongs}"


def _keys_before(lines: list[str], at: int) -> Iterator[tuple[int, str, int]]:
    """(indentation, key, number) of the lines above that begin with a key, the nearest first."""
    for number in range(at - 1, -1, -1):
        if (match := _KEY.match(lines[number])) is not None:
            yield len(match["indent"]), match["key"], number
