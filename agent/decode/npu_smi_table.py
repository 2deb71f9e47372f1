"""`npu-smi info`: a table with two rows for each chip, and one of the processes below it. Pure.

Widths differ by version (26.0 is 18 columns wider) and separators by board, so rows are told apart by what is in their
last cell: `power temp pages / pages` is a first row, `aicore memory / memory [hbm / hbm]` a second one. Formats: the
driver's npucli (npu_info_print.c); versions 23 to 26 on 310P, 910A, 910B, A3 and 950.
"""

from __future__ import annotations

import re

from agent.decode.records import Chip, Problem, Process, Table
from agent.decode.text import ParseError, cells, known, quoted, real, whole

HEALTH_WORDS = {"OK": 0, "Warning": 1, "Alarm": 2, "Critical": 3}
"""As numbers of DCMI. UNKNOWN and NA are no values."""

_FIRST = re.compile(r"([^/\s]+)\s+([^/\s]+)\s+[0-9]+\s*/\s*[0-9]+")
_SECOND = re.compile(r"([^/\s]+)\s+([0-9]+)\s*/\s*([0-9]+)(?:\s+([0-9]+)\s*/\s*([0-9]+))?")
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")


def health_word(word: str | None) -> str | None:
    """One of the tool's health words; None for NA and for what is none."""
    return word if word in HEALTH_WORDS or word == "UNKNOWN" else None


def parse(lines: tuple[str, ...]) -> Table:
    """A chip that was not ready (-8012) has no first row: its card and health are None. Raises ParseError."""
    table = Table(chips=[], processes=[])
    columns: list[str] = []
    open_row: Chip | None = None
    header = in_processes = False
    rows = [line for line in map(str.strip, lines) if line.startswith(("|", "+"))]
    for line in rows:
        if line.startswith("+"):
            continue
        row = cells(line)
        if version := _VERSION.search(line):
            _only(table)
            header, table.version = True, version[2]
        elif "Process id" in row:
            in_processes = True
        elif in_processes:
            _process(table, row)
        else:
            if len(row) == 4:  # 950: card and name stand in cells of their own
                row = [f"{row[0]} {row[1]}".strip(), *row[2:]]
            if len(row) != 3:
                continue
            if row[1] in {"Health", "Bus-Id"}:
                _only(table)
                header, columns = True, row[0].split()
            elif first := _FIRST.fullmatch(row[2]):
                open_row = _first_row(row, first)
                if open_row is not None:
                    table.chips.append(open_row)
            elif second := _SECOND.fullmatch(row[2]):
                if open_row is None:
                    open_row = Chip()
                    table.chips.append(open_row)
                _second_row(open_row, row, second, columns)
                open_row = None
    if not header and not table.chips:
        raise ParseError(f"no table in the output of npu-smi info: {quoted(lines)}")
    _check_end(table, rows, open_row)
    return table


def _only(table: Table) -> None:
    """At a header: nothing may be above it."""
    if table.chips:
        raise ParseError("two tables in one text: decode the output of one call at a time")


def _check_end(table: Table, rows: list[str], open_row: Chip | None) -> None:
    """A table ends with a border line. Without any border it was edited: then its last chip must be whole."""
    bordered = any(line.startswith("+") for line in rows)
    if bordered and rows[-1].startswith("+") and table.chips:
        return
    if open_row is not None:
        table.chips.pop()
    if bordered or open_row is not None or not table.chips:
        table.error = Problem("truncated", "the table of npu-smi info stops before its end")


def _first_row(row: list[str], found: re.Match[str]) -> Chip | None:
    card, _, name = row[0].partition(" ")
    if whole(card) is None:
        return None
    power_w, temp_c = real(found[1]), whole(found[2])
    return Chip(
        card=whole(card),
        name=known(name.strip()),
        health=health_word(row[1]),
        power_w=power_w or None,  # a getter that fails prints 0.0, or 0
        temp_c=temp_c or None,
    )


def _second_row(chip: Chip, row: list[str], found: re.Match[str], columns: list[str]) -> None:
    ids = [whole(word) for word in row[0].split()]
    chip.chip = ids[0] if ids else None
    if len(ids) > 1:
        if "Phy-ID" in columns or (not columns and found[5]):  # edited captures: of A3 and 310P only A3 has HBM
            chip.phy = ids[1]
        elif "Device" in columns:
            chip.device = ids[1]
    chip.bus = row[1].upper() if _BUS.fullmatch(row[1]) else None
    chip.aicore_pct = whole(found[1])
    if whole(found[3]):
        chip.memory_used_mb, chip.memory_total_mb = whole(found[2]), whole(found[3])
    if whole(found[5]):
        chip.hbm_used_mb, chip.hbm_total_mb = whole(found[4]), whole(found[5])
    if not chip.aicore_pct and chip.memory_total_mb is None and chip.hbm_total_mb is None:
        chip.aicore_pct = None  # no memory at all: nothing of this chip could be read


def _process(table: Table, row: list[str]) -> None:
    if len(row) != 4 or (pid := whole(row[1])) is None:
        return
    ids = [whole(word) for word in row[0].split()]
    table.processes.append(
        Process(
            pid=pid,
            name=known(row[2]),
            memory_mb=whole(row[3]),
            card=ids[0] if ids else None,
            chip=ids[1] if len(ids) > 1 else None,
        )
    )
