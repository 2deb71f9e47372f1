"""Output of hccn_tool as its sensor reads it: damaged text is ToolError or an answer, whatever the exit code was."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.decode.hccn_port import NetHealth
from agent.probes import net_health
from agent.sensors import hccn
from agent.sensors.process import Output, ToolError
from tests.decode.texts import CASES
from tests.fuzz.damage import FUZZ, damaged

PARSERS: Mapping[str, Callable[[Output], object]] = {
    "hccn-link": hccn.parse_link,
    "hccn-link-stat": hccn.parse_link_downs,
    "hccn-net-health": hccn.parse_net_health,
    "hccn-optical": hccn.parse_optical,
    "hccn-ping": hccn.parse_reached,
    "hccn-ub-connect": hccn.parse_ub_ports,
}
TEXTS = {tool: [case.text for case in CASES if case.tool == tool] for tool in PARSERS}
OUTPUTS = st.sampled_from(sorted(PARSERS)).flatmap(
    lambda tool: st.tuples(
        st.just(tool),
        st.sampled_from(TEXTS[tool]).flatmap(lambda text: damaged(text.encode())),
        st.sampled_from((0, 0, 3, 11, 13)),
        st.sampled_from(("", "hccn_tool is busy, please try again.\n")),
    )
)


def test_every_answer_has_a_text_here() -> None:
    assert all(TEXTS.values())


@FUZZ
@given(output=OUTPUTS)
def test_damaged_output_is_an_error_or_an_answer(output: tuple[str, bytes, int, str]) -> None:
    tool, raw, code, err = output
    text = raw.decode(errors="replace")
    try:
        answer = PARSERS[tool](Output(code, text, err))
    except ToolError:
        return
    if tool == "hccn-link":
        assert answer is ("UP" in text)
    if isinstance(answer, tuple):
        assert all(math.isfinite(down.ago_s) for down in answer)


@pytest.mark.parametrize("tool", ["hccn-link", "hccn-ping"])
def test_every_cut_of_a_single_answer_is_an_error_or_that_answer(tool: str) -> None:
    for text in TEXTS[tool]:
        whole = PARSERS[tool](Output(0, text, ""))
        for end in range(len(text)):
            assert answer_of(tool, text[:end]) in (None, whole)


def test_a_cut_word_of_the_network_health_is_neither_health_nor_fault() -> None:
    for word in (*net_health.BAD, "Success", "Init"):
        text = f"net health status: {word}"
        for end in range(len(text)):
            answer = answer_of("hccn-net-health", text[:end])
            if isinstance(answer, NetHealth):
                assert not answer.healthy
                assert answer.status not in net_health.BAD or word.startswith(str(answer.status))


def answer_of(tool: str, text: str) -> object | None:
    try:
        return PARSERS[tool](Output(0, text, ""))
    except ToolError:
        return None
