"""Tables: on a pipe a row is a line; on a terminal words stay whole while anything wider can shrink."""

from hypothesis import given
from hypothesis import strategies as st

from console.cli.table import layout

COLUMNS = ("UNIT", "MESSAGE")
UNIT = "serve/a-model-with-a-long-name/decode-12"
MESSAGE = "the fault went away before anything was deleted, so nothing had to be deleted at all, which is fine"


def plain(_cell: str, padded: str) -> str:
    return padded


def test_a_pipe_has_one_line_for_each_row_and_no_trailing_blanks() -> None:
    lines = layout(COLUMNS, [[UNIT, MESSAGE], ["a", "-"]], None, plain)
    assert lines[1] == f"{UNIT}  {MESSAGE}"
    assert lines[2] == f"a{' ' * (len(UNIT) + 1)}-"
    assert lines[0] == f"UNIT{' ' * (len(UNIT) - 2)}MESSAGE"


def test_prose_shrinks_before_a_name_is_cut() -> None:
    lines = layout(COLUMNS, [[UNIT, MESSAGE]], 80, plain)
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(f"{UNIT}  the fault")


def test_a_name_is_folded_rather_than_run_over() -> None:
    lines = layout(("NAME",), [["x" * 50]], 20, plain)
    assert lines == ["NAME", "x" * 20, "x" * 20, "x" * 10]


@given(
    rows=st.lists(st.lists(st.text("ab -/", max_size=40), min_size=3, max_size=3), max_size=5),
    width=st.integers(40, 120),
)
def test_nothing_is_lost_and_everything_fits(rows: list[list[str]], width: int) -> None:
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    lines = layout(("A", "B", "C"), cells, width, plain)
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    shown = sorted("".join(lines[1:]).replace(" ", ""))
    assert shown == sorted("".join(cell for row in cells for cell in row).replace(" ", ""))
