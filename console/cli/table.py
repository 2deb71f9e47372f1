"""Tables of text: columns as wide as they need to be, narrowed only as far as the terminal asks, at words first.

On a pipe nothing is wrapped: a row is a line, for grep and awk. Names are never cut while prose beside them can shrink.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

GAP = "  "
NARROWEST = 8
"""A column is not folded to less: on a terminal that small, lines run over."""

Style = Callable[[str, str], str]
"""(the cell's text, the same padded) -> what is printed."""


def layout(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, style: Style) -> list[str]:
    """The lines of a table that is at most `width` wide (None: as wide as it is), without trailing blanks."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    if width is not None:
        words = [max(_longest_word(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
        room = width - len(GAP) * (len(columns) - 1)
        widths = _shrunk(widths, words, room)
        widths = _shrunk(widths, [NARROWEST] * len(widths), room)
    lines = [_line(columns, widths, lambda _, padded: padded)]
    for row in rows:
        wrapped = [_wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(map(len, wrapped))):
            cells = [part[number] if number < len(part) else "" for part in wrapped]
            lines.append(_line(cells, widths, style))
    return lines


def _shrunk(widths: list[int], least: list[int], room: int) -> list[int]:
    """The widest that may become narrower gives first."""
    widths = list(widths)
    while sum(widths) > room:
        loose = [i for i, size in enumerate(widths) if size > least[i]]
        if not loose:
            break
        widths[max(loose, key=lambda i: widths[i])] -= 1
    return widths


def _longest_word(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _wrapped(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False)


def _line(cells: Sequence[str], widths: Sequence[int], style: Style) -> str:
    # The last cell is not padded, and neither is one with nothing but blanks after it.
    last = max((i for i, cell in enumerate(cells) if cell), default=0)
    padded = (cell.ljust(size) if i < last else cell for i, (cell, size) in enumerate(zip(cells, widths, strict=True)))
    shown = [style(cell, text) if cell else text for cell, text in zip(cells, padded, strict=True)]
    return GAP.join(shown[: last + 1])
