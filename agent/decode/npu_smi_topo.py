"""`npu-smi info -t topo`: how each chip reaches each other one. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.records import Decoded, Problem
from agent.decode.text import ParseError, known, quoted

_DEVICE = re.compile(r"(NPU|Phy-ID)[0-9]+")
_KIND = re.compile(r"[A-Z][A-Z_]*")
_AFFINITY = "CPU Affinity"


class Reach(msgspec.Struct, kw_only=True):
    """One device: links = kind of connection by device (X itself, SYS, HCCS, SIO, UB, ...; None where unknown)."""

    device: str
    links: dict[str, str | None]
    cpu_affinity: str | None = None


class Matrix(msgspec.Struct, kw_only=True):
    """NPU names are NPU ids, Phy-ID names physical ids (A3)."""

    devices: list[str]
    rows: list[Reach]


class Topology(Decoded, kw_only=True):
    """One matrix for each time the tool was called."""

    matrices: list[Matrix] = msgspec.field(default_factory=list)


def parse(lines: Sequence[str]) -> Topology:
    """Raises ParseError."""
    answer = Topology(matrices=[])
    for line in lines:
        words = line.replace(_AFFINITY, "").split()
        if not words or not _DEVICE.fullmatch(words[0]):
            continue
        if all(map(_DEVICE.fullmatch, words)):
            answer.matrices.append(Matrix(devices=words, rows=[]))
        elif answer.matrices:
            matrix = answer.matrices[-1]
            kinds, rest = words[1 : len(matrix.devices) + 1], words[len(matrix.devices) + 1 :]
            if len(kinds) == len(matrix.devices) and all(map(_KIND.fullmatch, kinds)):
                links = dict(zip(matrix.devices, map(known, kinds), strict=True))
                matrix.rows.append(Reach(device=words[0], links=links, cpu_affinity=" ".join(rest) or None))
    if not answer.matrices:
        raise ParseError(f"no topology in this text: {quoted(lines)}")
    for matrix in answer.matrices:
        if [row.device for row in matrix.rows] != matrix.devices:
            text = f"{len(matrix.rows)} of {len(matrix.devices)} rows of the topology are here"
            answer.error = Problem("truncated", text)
    return answer
