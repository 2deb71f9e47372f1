"""MindCluster's fault-code files that are damaged: each bad entry is skipped with words, the others count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.detect.rules import CUSTOMIZATION_FILE, FILES, LEVELS_FILE, SWITCH_FILE
from shared.model import FaultLevel
from tests.detect.bench import Bench, at, good
from tests.fuzz.damage import FUZZ, altered, damaged

DOCUMENTS: Mapping[str, Any] = {
    LEVELS_FILE: {
        "RestartBusinessCodes": ["80E01801", "80CB8009"],
        "SeparateNPUCodes": ["80E18402", "a8028801"],
        "NotHandleFaultCodes": ["80E21007"],
        "SubHealthFaultNetworkCodes": ["81078603"],
    },
    SWITCH_FILE: {
        "NotHandleFaultCodes": ["[0x08520003,na,L2,na]"],
        "SeparateFaultCodes": ["[0x00f103b0,155904,cpu,na]"],
    },
    CUSTOMIZATION_FILE: {
        "GraceTolerance": {"WaitProcessReadCMTime": 30},
        "FaultFrequency": [
            {"EventId": ["80E18008"], "TimeWindow": 86400, "Times": 2, "FaultHandling": "ManuallySeparateNPU"},
            {
                "EventId": ["80CB8009"],
                "TimeWindow": 60,
                "Times": 100,
                "FaultHandling": "SeparateNPU",
                "ReleaseTimeWindow": 60,
            },
        ],
        "FaultDuration": [
            {"EventId": ["81078603"], "FaultTimeout": 20, "RecoverTimeout": 60, "FaultHandling": "PreSeparateNPU"}
        ],
    },
}
DAMAGED = st.sampled_from(FILES).flatmap(
    lambda name: st.tuples(
        st.just(name), st.one_of(damaged(json.dumps(DOCUMENTS[name]).encode()), altered(DOCUMENTS[name]))
    )
)


@FUZZ
@given(file=DAMAGED)
def test_a_damaged_fault_file_never_stops_detection(file: tuple[str, bytes]) -> None:
    name, raw = file
    bench = Bench()
    bench.poll(0, good(3, "80E18402", health=3))
    complaints = bench.detector.config({name: raw.decode(errors="replace")}, at(1))
    for complaint in complaints:
        said = str(complaint)
        assert said.startswith(name)
        said.encode()  # it goes into the log and into answers of the API
    rules = bench.detector.overlay.rules
    assert all(isinstance(level, FaultLevel) for level in rules.levels.values())
    for rule in rules.frequency.values():
        assert 60 <= rule.window_s <= 864_000
        assert 1 <= rule.times <= 100
        assert rule.release_s is None or 60 <= rule.release_s <= 1 << 32
    for limit in rules.duration.values():
        assert 0 <= limit.fault_timeout_s <= 600
        assert 0 <= limit.recover_timeout_s <= 86_400
        assert limit.level is not FaultLevel.MANUALLY_SEPARATE_NPU
    assert [fault.code for fault in bench.view(2).faults] == ["80E18402"]


def test_every_cut_of_a_file_leaves_what_was_in_force() -> None:
    for name, document in DOCUMENTS.items():
        text = json.dumps(document)
        bench = Bench()
        bench.detector.config({name: text}, at(0))
        before = bench.detector.overlay.rules
        for end in range(len(text)):
            complaints = bench.detector.config({name: text[:end]}, at(1))
            assert len(complaints) == 1
            assert bench.detector.overlay.rules == before, (name, end)
