"""What each tool's text means; errors, cut texts and texts of other tools are errors, never wrong values."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.decode.hccn_says import ERRORS
from agent.decode.tools import TOOLS, decode
from tests.decode.judging import told, wrong
from tests.decode.texts import CASES, TABLE_A2, Case, kv

EACH_CASE = pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.tool}: {case.name}") for case in CASES])


def test_every_tool_has_a_text_here() -> None:
    assert {case.tool for case in CASES} == set(TOOLS)


@EACH_CASE
def test_values(case: Case) -> None:
    answer = decode(case.tool, case.text)
    assert answer.error is None
    assert answer.tool == case.tool
    assert told(answer) == case.expected


@EACH_CASE
def test_comments_and_line_ends_change_nothing(case: Case) -> None:
    commented = "# source: somewhere; exit code 0\n" + case.text.replace("\n", "\r\n") + "# --- stderr:\n"
    assert decode(case.tool, commented) == decode(case.tool, case.text)


@EACH_CASE
def test_a_text_cut_anywhere_gives_an_error_or_a_correct_part(case: Case) -> None:
    whole = told(decode(case.tool, case.text))
    for end in range(len(case.text)):
        part = decode(case.tool, case.text[:end])
        assert not (bad := wrong(told(part), whole)), (end, case.text[max(0, end - 40) : end], bad)
        if not case.text[:end].strip():
            assert part.error is not None


@EACH_CASE
def test_a_text_whose_beginning_is_missing_gives_no_other_numbers(case: Case) -> None:
    numbers = _numbers(told(decode(case.tool, case.text)))
    for start in range(len(case.text)):
        assert _numbers(told(decode(case.tool, case.text[start:]))) <= numbers, case.text[start : start + 40]


@EACH_CASE
def test_the_text_of_another_tool_is_an_error(case: Case) -> None:
    for tool in TOOLS.keys() - {case.tool}:
        answer = decode(tool, case.text)
        assert answer.error is not None, tool
        assert not told(answer) or tool == "npu-smi-l", tool


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("dcmi module initialize failed. ret is -8005\n", -8005, id="no driver"),
        pytest.param("Log failed. (ret=4)\ndcmi module initialize failed. ret is -8005\n", -8005, id="behind noise"),
        pytest.param("dcmi model initialized failed, the device is used. ret is -8020", -8020, id="without line end"),
        pytest.param("dcmi module initialize failed. ret is -800", "failed", id="a cut code is none"),
        pytest.param("Failed to execute npu-smi info. ret is -8006.\n", -8006, id="timed out"),
        pytest.param("Invalid card id.\nError parameter of -i\nUsage: npu-smi info\n", -8008, id="no such card"),
        pytest.param("This device does not support querying ecc.\n", -8255, id="not supported"),
        pytest.param('Failed to query "health" result.\n', "failed", id="no number"),
        pytest.param("Usage: npu-smi <Command|-h|-v> [Options...]\n", "failed", id="usage"),
    ],
)
def test_errors_of_npu_smi(text: str, code: int | str) -> None:
    for tool in (name for name in TOOLS if name.startswith("npu-smi")):
        answer = decode(tool, text)
        assert answer.error is not None
        assert answer.error.code == code
        assert told(answer) == {}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_of_hccn_tool(text: str) -> None:
    for tool in (name for name in TOOLS if name.startswith("hccn")):
        answer = decode(tool, f"The {text}, please try again.\n")
        assert answer.error is not None
        assert answer.error.code == ERRORS[text]


def test_an_error_behind_a_card_whose_exit_code_was_0() -> None:
    failed = kv(("NPU ID", 3), ("Chip Count", 1)) + "\n" + kv(("Chip ID", 0)) + "Failed to query npu chip: 0 info.\n"
    for tool in ("npu-smi-ecc", "npu-smi-usages", "npu-smi-health"):
        answer = decode(tool, failed)
        assert answer.error is not None
        assert answer.error.text == "Failed to query npu chip: 0 info."
        assert told(answer) == {"chips": [{"card": 3, "chip": 0}]}


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        pytest.param("npu-smi-info", "\n".join(TABLE_A2.splitlines()[:8]) + "\n", id="table"),
        pytest.param("npu-smi-health", kv(("Health Status", "OK")), id="no codes"),
        pytest.param("npu-smi-ecc", kv(("Chip Count", 1), ("HBM Single Bit Error Count", 1)), id="no chip id"),
        pytest.param("npu-smi-l", kv(("Total Count", 2), ("NPU ID", 0)), id="a card is missing"),
        pytest.param("npu-smi-m", "\tNPU ID     Chip ID     Chip Logic ID     Chip Name\n", id="header"),
        pytest.param("npu-smi-topo", "       NPU0   NPU1\nNPU0   X      SYS\n", id="a row is missing"),
        pytest.param("hccn-stat", "packet statistics:\nroce_rx_err_pkt_num:13", id="a number may go on"),
        pytest.param("hccn-ip", "ipaddr:192.0.2.1\n", id="no mask"),
        pytest.param("hccn-net-health", "net health status: Socket fail", id="an old word is longer"),
        pytest.param("hccn-ping", "device 3 PING 192.0.2.33\nrecv seq=0,time=0.07ms\n", id="no summary"),
    ],
)
def test_what_can_be_seen_to_be_cut_is_an_error(tool: str, text: str) -> None:
    answer = decode(tool, text)
    assert answer.error is not None
    assert answer.error.code in {"truncated", "foreign"}


def test_a_text_that_stops_in_its_only_line_says_what_was_there() -> None:
    answer = decode("hccn-link", "# a comment\nlink status: U")
    assert answer.error is not None
    assert (answer.error.code, answer.error.text) == (
        "truncated",
        "the last line has no end and is left out: 'link status: U'",
    )


def test_a_foreign_text_is_quoted_with_its_unfinished_line() -> None:
    answer = decode("hccn-link", "hello\nlink status: U")
    assert answer.error is not None
    assert answer.error.code == "foreign"
    assert "'hello'" in answer.error.text
    assert "'link status: U'" in answer.error.text


@pytest.mark.parametrize("text", ["link status: UP", "net health status: Success", "Speed: 1000 Mb/s"])
def test_a_last_line_that_is_whole_needs_no_line_end(text: str) -> None:
    tool = {"link": "hccn-link", "net ": "hccn-net-health", "Spee": "hccn-speed"}[text[:4]]
    assert decode(tool, text) == decode(tool, text + "\n")


@EACH_CASE
def test_the_text_of_two_calls_loses_nothing(case: Case) -> None:
    """Refused where there is one answer to give; logs, buses, topologies and chip-less process lists just go on."""
    twice = decode(case.tool, case.text * 2)
    if case.tool in {"kmsg", "lspci", "npu-smi-topo"} or case.name == "nothing runs":
        assert twice.error is None
    else:
        assert twice.error is not None
        assert not told(twice)


def test_a_table_may_be_indented() -> None:
    indented = "".join(f"    {line}\n" for line in TABLE_A2.splitlines())
    assert decode("npu-smi-info", indented) == decode("npu-smi-info", TABLE_A2)


def test_no_text_at_all() -> None:
    for tool in TOOLS:
        for text in ("", "\n \n", "# source: nothing\n"):
            answer = decode(tool, text)
            assert answer.error is not None
            assert answer.error.code == "empty"


TEXTS = st.sampled_from([case.text for case in CASES])


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A text with a part of it replaced by a part of another, or by anything."""
    text = draw(TEXTS)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 80)))
    other = draw(TEXTS)
    where = draw(st.integers(0, len(other)))
    size = draw(st.integers(0, 80))
    middle = draw(st.one_of(st.just(other[where : where + size]), st.text(max_size=20), st.just("9" * 5000)))
    return text[:start] + middle + text[end:]


@given(text=st.one_of(mangled(), st.text()))
def test_no_text_is_too_strange(text: str) -> None:
    for tool in TOOLS:
        answer = decode(tool, text)
        assert msgspec.json.decode(msgspec.json.encode(answer))["tool"] == tool


def _numbers(value: object) -> set[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {number for one in value for number in _numbers(one)}
    return {value} if isinstance(value, (int, float)) else set()
