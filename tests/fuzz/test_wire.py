"""Messages in Redis that are damaged, cut or of strange content."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model import (
    AgentInfo,
    ChangeNote,
    Chip,
    Fault,
    FaultEvent,
    FaultLevel,
    Machine,
    NodeReport,
    ProbeStatus,
    Unknown,
)
from shared.wire import WireError, decode_note, decode_report, encode
from tests.fuzz.damage import FUZZ, altered, damaged

NODE = "node-a"
EVENTS = (FaultEvent("raised", "80E18402@3", 1_800_000_000.5), FaultEvent("cleared", "NW-PROBE@node", 1_800_000_001.0))
REPORT = NodeReport(
    v=1,
    node=NODE,
    session="0b9d4c1e-7f0e-4a41-8a8a-5b7f6c1d2e3f",
    seq=17,
    boot_id="b",
    at=1_800_000_000.25,
    agent=AgentInfo("0.1.0", "http://192.0.2.1:9465"),
    machine=Machine("910B", "25.5.1", "7.1", 4),
    chips=(Chip(3, "fault", card=3, pci="0000:82:00.0", die="D", codes=("80E18402",), pods=("uid-1",)), Chip(4, "ok")),
    faults=(Fault("80E18402@3", "80E18402", 3, FaultLevel.SEPARATE_NPU, 1_800_000_000.0, True, evidence={"a": [1]}),),
    unknown=(Unknown("node", "kmsg", 1_800_000_000.0, "cannot be read"),),
    probes=(ProbeStatus("kmsg", 3.0, 0.1, "cannot be read"),),
    events=EVENTS,
)
NOTE = ChangeNote(v=1, node=NODE, session="s", seq=17, events=EVENTS)
RAW_REPORT, RAW_NOTE = encode(REPORT), encode(NOTE)


def plain(message: NodeReport | ChangeNote) -> Any:
    return msgspec.json.decode(encode(message))


def judge_report(raw: bytes) -> None:
    """WireError, or a report that says of itself what it is and can be written and read again."""
    try:
        report = decode_report(raw, node=NODE)
    except WireError:
        return
    assert (report.v, report.node) == (1, NODE)
    assert all(isinstance(chip.phy, int) and chip.health in ("ok", "fault", "unknown") for chip in report.chips)
    assert all(isinstance(fault.level, FaultLevel) and isinstance(fault.confirmed, bool) for fault in report.faults)
    assert decode_report(encode(report), node=NODE) == report


@FUZZ
@given(raw=st.one_of(damaged(RAW_REPORT), altered(plain(REPORT))))
def test_a_damaged_report_is_refused_or_a_report(raw: bytes) -> None:
    judge_report(raw)


@FUZZ
@given(raw=st.one_of(damaged(RAW_NOTE), altered(plain(NOTE))))
def test_a_damaged_note_is_refused_or_a_note(raw: bytes) -> None:
    try:
        note = decode_note(raw)
    except WireError:
        return
    assert note.v == 1
    assert decode_note(encode(note)) == note


def test_every_cut_of_a_message_is_refused() -> None:
    for end in range(len(RAW_REPORT)):
        with pytest.raises(WireError):
            decode_report(RAW_REPORT[:end], node=NODE)
    for end in range(len(RAW_NOTE)):
        with pytest.raises(WireError):
            decode_note(RAW_NOTE[:end])


def test_what_is_whole_is_read_as_it_was_written() -> None:
    assert decode_report(RAW_REPORT, node=NODE) == REPORT
    assert decode_note(RAW_NOTE) == NOTE
