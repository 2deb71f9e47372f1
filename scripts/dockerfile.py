"""A Dockerfile as data: stages and their steps, as much of the format as deploy/Dockerfile uses; the rest is refused.

Source: Dockerfile reference (instructions, line continuation, variables of ARG and ENV, .dockerignore).
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

STEPS = ("RUN", "COPY", "ENV", "ARG", "WORKDIR", "USER", "LABEL", "EXPOSE", "ENTRYPOINT", "CMD")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


class DockerfileError(Exception):
    """The file says something that is not understood here; the message has the line."""


@dataclass(frozen=True, slots=True)
class Stage:
    """base: a stage's name, or the image it starts from. steps: instruction and text, in order."""

    name: str
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)


def parse(text: str) -> tuple[dict[str, str], dict[str, Stage]]:
    """Arguments before the first stage with their defaults, and the stages by name. Raises DockerfileError."""
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    for line in _lines(text):
        instruction, _, rest = line.partition(" ")
        rest = rest.strip()
        if instruction == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", rest)
            if match is None:
                raise DockerfileError(f"a stage without a name: {line}")
            stages[match[2]] = Stage(match[2], substituted(match[1], arguments))
        elif not stages and instruction == "ARG":
            arguments |= pairs(rest)
        elif stages and instruction in STEPS:
            next(reversed(stages.values())).steps.append((instruction, rest))
        else:
            raise DockerfileError(f"not understood: {line}")
    return arguments, stages


def _lines(text: str) -> Iterator[str]:
    """Logical lines: comments are dropped, also within a continued one."""
    whole = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield whole.strip()
            whole = ""


def pairs(text: str) -> dict[str, str]:
    """`A=1 B="two words"`."""
    words = (word.partition("=") for word in shlex.split(text))
    return {key: value for key, _, value in words}


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """Raises DockerfileError for a variable that nobody has set."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in variables:
            raise DockerfileError(f"{name} is not set: {text}")
        return variables[name]

    return _VARIABLE.sub(value, text)


def copied(text: str) -> tuple[str | None, Sequence[str], str]:
    """Of COPY: the stage it takes from (None: the context), the sources, the destination."""
    words = shlex.split(text)
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
    if len(words) < 2 or any(word.startswith("--") for word in words):
        raise DockerfileError(f"not understood: COPY {text}")
    return stage, words[:-1], words[-1]


def in_context(path: str, ignore: str) -> bool:
    """Whether a file of the checkout reaches the build. path: relative to it; ignore: text of the .dockerignore."""
    inside = True
    parents = ["/".join(path.split("/")[: n + 1]) for n in range(path.count("/") + 1)]
    for pattern in ignore.splitlines():
        pattern = pattern.strip()
        name = pattern.removeprefix("!").removeprefix("**/")
        anywhere = pattern.startswith("**/")
        if pattern and any(fnmatch.fnmatchcase(p.rpartition("/")[2] if anywhere else p, name) for p in parents):
            inside = pattern.startswith("!")
    return inside
