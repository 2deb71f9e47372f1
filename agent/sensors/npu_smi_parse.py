"""Text of `npu-smi` to structs. Pure.

Widths differ by version and board, separators by mood: rows are split on `|`, never by column. What a tool could not
tell is None; what a failed getter printed as 0 (power 0.0, temperature 0, a total of 0) is None too. Formats: the
driver's npucli (npu_info_print.c) and captures of versions 23 to 26 on 310P, 910A, 910B, A3 and 950.
"""

from __future__ import annotations

import re

import msgspec

HEALTH_WORDS = {"OK": 0, "Warning": 1, "Alarm": 2, "Critical": 3}
"""UNKNOWN and NA are no values."""

_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_USAGE = re.compile(r"(\d+)\s*/\s*(\d+)")
_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")
_RET = re.compile(r"ret is (-\d+)")
_COLUMNS = re.compile(r"\s{2,}")
_CODE = re.compile(r"[0-9A-Fa-f]{4,8}")

INVALID_ID = -8008
"""What DCMI calls a device that does not exist."""


class ParseError(Exception):
    """The text is not what the tool prints; carries its first line."""


class ToolSays(Exception):
    """The tool printed an error. `ret`: the driver's return code in it, None when it names none."""

    def __init__(self, text: str, ret: int | None) -> None:
        super().__init__(text)
        self.ret = ret


class TableChip(msgspec.Struct):
    """One chip of `npu-smi info`. `card` is None when its first row is missing: the chip was not ready (-8012)."""

    card: int | None = None
    chip: int | None = None
    phy: int | None = None
    device: int | None = None
    name: str | None = None
    health: str | None = None
    power_w: float | None = None
    temp_c: int | None = None
    bus: str | None = None
    aicore_pct: int | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    hbm_used_mb: int | None = None
    hbm_total_mb: int | None = None


class Table(msgspec.Struct, frozen=True):
    chips: tuple[TableChip, ...]
    version: str | None = None


class MapRow(msgspec.Struct, frozen=True):
    """One NPU of `npu-smi info -m`; the chips of management controllers are left out."""

    card: int
    chip: int
    logic: int | None = None
    phy: int | None = None
    slot: int | None = None
    name: str | None = None


class ChipHealth(msgspec.Struct, frozen=True):
    """`npu-smi info -t health -i N -c C`; `codes` is None when the code line is missing."""

    health: str | None
    codes: tuple[str, ...] | None


def check(text: str, exit_code: int) -> None:
    """Raise ToolSays when the output is an error: all of them go to stdout, before or instead of an answer."""
    found = _RET.search(text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), f"exit code {exit_code}, no output")
    if found:
        raise ToolSays(found.string.strip().splitlines()[-1], int(found[1]))
    if "Invalid card id" in text or "Invalid chip id" in text or "There is no NPU chip" in text:
        raise ToolSays(first, INVALID_ID)
    if exit_code != 0 or text.lstrip().startswith("There is no NPU card"):
        raise ToolSays(first, None)


def parse_info(text: str) -> Table:
    """`npu-smi info`: the table of chips; the process table behind it is another matter. Raises ParseError."""
    chips: list[TableChip] = []
    columns: list[str] = []
    open_row: TableChip | None = None
    version = _VERSION.search(text)
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "Process id" in cells:
            break
        if len(cells) == 4:  # 950: card and name stand in cells of their own
            cells = [f"{cells[0]} {cells[1]}".strip(), *cells[2:]]
        if len(cells) != 3:
            continue
        if cells[1] in {"Health", "Bus-Id"}:
            columns = cells[0].split()
            continue
        if not _is_second_row(cells[1], open_row):
            open_row = _first_row(cells)
            chips.append(open_row)
            continue
        if open_row is None:
            open_row = TableChip()
            chips.append(open_row)
        _second_row(open_row, cells, columns)
        open_row = None
    if not chips and "npu-smi" not in text:
        raise ParseError(f"no table in the output of npu-smi info: {text.strip()[:80]!r}")
    return Table(tuple(chips), version[1] if version else None)


def parse_map(text: str) -> tuple[MapRow, ...]:
    """`npu-smi info -m`, with 4 or 5 columns. Raises ParseError."""
    lines = [_COLUMNS.split(line.strip()) for line in text.splitlines() if line.strip()]
    start = next((number for number, words in enumerate(lines) if words[0] == "NPU ID" and len(words) > 2), None)
    if start is None:
        raise ParseError(f"no header in the output of npu-smi info -m: {text.strip()[:80]!r}")
    rows: list[MapRow] = []
    for words in lines[start + 1 :]:
        row = dict(zip(lines[start], words, strict=False))
        card, chip = _int(row.get("NPU ID")), _int(row.get("Chip ID"))
        ids = (_int(row.get("Chip Logic ID")), _int(row.get("Chip Phy-ID")))
        if card is None or card < 0 or chip is None or ids == (None, None):
            continue  # a management controller, or a card that was not there at init
        rows.append(MapRow(card, chip, *ids, _int(row.get("Slot ID")), row.get("Chip Name")))
    return tuple(rows)


def parse_list(text: str) -> tuple[int, ...]:
    """`npu-smi info -l`: the card ids; -1 stands for one that was not there at init. Raises ParseError."""
    if "Total Count" not in text:
        raise ParseError(f"no total in the output of npu-smi info -l: {text.strip()[:80]!r}")
    cards = (_int(value) for key, value in _pairs(text) if key == "NPU ID")
    return tuple(card for card in cards if card is not None)


def parse_health(text: str) -> ChipHealth:
    """`npu-smi info -t health -i N -c C`, old label (Health Status) and new. Raises ParseError."""
    health: str | None = None
    codes: tuple[str, ...] | None = None
    for key, value in _pairs(text):
        if key in {"Health Status", "Health"}:
            health = value
        elif key == "Error Code":
            codes = tuple(f"{int(word, 16):08X}" for word in value.split() if _CODE.fullmatch(word))
            if not codes and value != "NA":
                codes = None
    if health is None:
        raise ParseError(f"no health in the output of npu-smi info -t health: {text.strip()[:80]!r}")
    return ChipHealth(health, codes)


def _is_second_row(middle: str, open_row: TableChip | None) -> bool:
    return bool(_BUS.fullmatch(middle)) or (middle == "NA" and open_row is not None)


def _first_row(cells: list[str]) -> TableChip:
    card, _, name = cells[0].partition(" ")
    words = cells[2].split()
    power_w, temp_c = _float(words[0]) if words else None, _int(words[1]) if len(words) > 1 else None
    return TableChip(
        card=_int(card),
        name=name.strip() or None,
        health=cells[1] or None,
        power_w=power_w or None,
        temp_c=temp_c or None,
    )


def _second_row(chip: TableChip, cells: list[str], columns: list[str]) -> None:
    ids = [_int(word) for word in cells[0].split()]
    chip.chip = ids[0] if ids else None
    if len(ids) > 1:
        if "Phy-ID" in columns:
            chip.phy = ids[1]
        elif "Device" in columns:
            chip.device = ids[1]
    chip.bus = cells[1].upper() if cells[1] != "NA" else None
    words = cells[2].split()
    chip.aicore_pct = _int(words[0]) if words else None
    usages = [(int(used), int(total)) for used, total in _USAGE.findall(cells[2])]
    if usages and usages[0][1]:
        chip.memory_used_mb, chip.memory_total_mb = usages[0]
    if len(usages) > 1 and usages[1][1]:
        chip.hbm_used_mb, chip.hbm_total_mb = usages[1]


def _pairs(text: str) -> list[tuple[str, str]]:
    found = (line.partition(" : ") for line in text.splitlines())
    return [(key.strip(), value.strip()) for key, sep, value in found if sep]


def _int(word: str | None) -> int | None:
    return int(word) if word is not None and re.fullmatch(r"-?\d+", word) else None


def _float(word: str) -> float | None:
    return float(word) if re.fullmatch(r"\d+(\.\d+)?", word) else None
