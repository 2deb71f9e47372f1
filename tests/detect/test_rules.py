"""MindCluster's configuration files: what is taken, what is skipped, and what is said about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.detect.codes import canonical, is_switch_code
from agent.detect.complaints import UnusableFile
from agent.detect.rules import CUSTOMIZATION_FILE, LEVELS_FILE, NODED_FILE, SWITCH_FILE, builtin, parse
from shared.model import FaultLevel
from tests.detect.bench import CATALOGUE

MANUAL = "ManuallySeparateNPU"


def levels(content: dict[str, Any]) -> tuple[dict[str, FaultLevel], list[str]]:
    return switch(content, LEVELS_FILE)


def switch(content: dict[str, Any], name: str = SWITCH_FILE) -> tuple[dict[str, FaultLevel], list[str]]:
    parsed = parse(name, json.dumps(content), CATALOGUE)
    return dict(parsed.rules.levels), list(map(str, parsed.complaints))


def frequency(**entry: Any) -> tuple[bool, list[str]]:
    whole = {"EventId": ["80C98002"], "TimeWindow": 600, "Times": 2, "FaultHandling": MANUAL} | entry
    parsed = parse(CUSTOMIZATION_FILE, json.dumps({"FaultFrequency": [whole]}), CATALOGUE)
    return "80C98002" in parsed.rules.frequency, list(map(str, parsed.complaints))


def duration(**entry: Any) -> tuple[bool, list[str]]:
    whole = {"EventId": ["80C98002"], "FaultTimeout": 5, "RecoverTimeout": 60, "FaultHandling": "SeparateNPU"} | entry
    parsed = parse(CUSTOMIZATION_FILE, json.dumps({"FaultDuration": [whole]}), CATALOGUE)
    return "80C98002" in parsed.rules.duration, list(map(str, parsed.complaints))


def test_the_shipped_rules_are_mindclusters() -> None:
    rules = builtin()
    twice = [code for code, rule in rules.frequency.items() if rule.times == 2]
    assert len(twice) == 41
    assert rules.frequency["80E18005"].times == 3
    assert rules.frequency["81078603"].release_s == 172800
    assert {code: (rule.fault_timeout_s, rule.recover_timeout_s) for code, rule in rules.duration.items()} == {
        "81078603": (20, 60)
    }


def test_every_shipped_rule_is_about_a_code_of_the_catalogue() -> None:
    rules = builtin()
    assert [code for code in {*rules.frequency, *rules.duration} if CATALOGUE.lookup(code) is None] == []


def test_levels_by_code_in_any_case_the_more_serious_list_first() -> None:
    found, complaints = levels({"NotHandleFaultCodes": ["80e18402", "80AA0001"], "SeparateNPUCodes": ["80AA0001"]})
    assert found == {"80E18402": FaultLevel.NOT_HANDLE, "80AA0001": FaultLevel.SEPARATE_NPU}
    assert complaints == []


def test_mindclusters_network_lists_are_read() -> None:
    found, complaints = levels({"SeparateNPUNetworkCodes": ["81078603"]})
    assert found == {"81078603": FaultLevel.SEPARATE_NPU}
    assert complaints == []


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param({"RestartNPUCodes": ["xyz"]}, "RestartNPUCodes[0]: 'xyz'", id="no code"),
        pytest.param({"RestartNPUCodes": [80818002]}, "RestartNPUCodes[0]: 80818002", id="a number"),
        pytest.param({"RestartNPUCodes": "80818002"}, "RestartNPUCodes: must be a list", id="no list"),
        pytest.param({"RestartNPUCode": ["80818002"]}, "RestartNPUCode: unknown list", id="misspelt list"),
        pytest.param({"RestartNPUCodes": ["81078603"]}, "RestartNPUCodes[0]: 81078603", id="network code"),
    ],
)
def test_a_bad_level_is_skipped_alone_and_named(content: dict[str, Any], word: str) -> None:
    found, complaints = levels(content | {"SubHealthFaultCodes": ["80AA0002"]})
    assert found == {"80AA0002": FaultLevel.SUB_HEALTH}
    assert len(complaints) == 1
    assert complaints[0].startswith(f"{LEVELS_FILE}: {word}")


@pytest.mark.parametrize(
    ("entry", "loads"),
    [
        ({"TimeWindow": 59}, False),
        ({"TimeWindow": 60}, True),
        ({"TimeWindow": 864000}, True),
        ({"TimeWindow": 864001}, False),
        ({"TimeWindow": "600"}, False),
        ({"TimeWindow": True}, False),
        ({"Times": 0}, False),
        ({"Times": 1}, True),
        ({"Times": 100}, True),
        ({"Times": 101}, False),
        ({"Times": None}, False),
        ({"ReleaseTimeWindow": 59}, False),
        ({"ReleaseTimeWindow": 60}, True),
        ({"ReleaseTimeWindow": 1 << 32}, True),
        ({"ReleaseTimeWindow": (1 << 32) + 1}, False),
        ({"FaultHandling": "SeparateNPU"}, False),
        ({"FaultHandling": "SeparateNPU", "ReleaseTimeWindow": 600}, True),
        ({"FaultHandling": "Isolate"}, False),
        ({"FaultHandling": ["SeparateNPU"]}, False),
        ({"EventId": []}, False),
        ({"EventId": "80C98002"}, False),
    ],
)
def test_limits_of_a_frequency_rule(entry: dict[str, Any], loads: bool) -> None:
    loaded, complaints = frequency(**entry)
    assert loaded is loads
    assert (complaints == []) is loads


@pytest.mark.parametrize(
    ("entry", "loads"),
    [
        ({"FaultTimeout": 0}, True),
        ({"FaultTimeout": 600}, True),
        ({"FaultTimeout": 601}, False),
        ({"FaultTimeout": -1}, False),
        ({"RecoverTimeout": 0}, True),
        ({"RecoverTimeout": 86400}, True),
        ({"RecoverTimeout": 86401}, False),
        ({"FaultHandling": MANUAL}, False),
    ],
)
def test_limits_of_a_duration_rule(entry: dict[str, Any], loads: bool) -> None:
    loaded, complaints = duration(**entry)
    assert loaded is loads
    assert (complaints == []) is loads


def test_a_bad_code_among_good_ones_costs_itself_alone() -> None:
    loaded, complaints = frequency(EventId=["nonsense", "80C98002"])
    assert loaded
    assert complaints == ["faultCustomization.json: FaultFrequency[0].EventId[0]: 'nonsense' is no fault code, skipped"]


def test_an_unknown_key_is_told_and_costs_nothing() -> None:
    loaded, complaints = frequency(Comment="why")
    assert loaded
    assert complaints == ["faultCustomization.json: FaultFrequency[0].Comment: unknown key, ignored"]


def test_grace_tolerance_is_accepted() -> None:
    parsed = parse(CUSTOMIZATION_FILE, '{"GraceTolerance": {"WaitDeviceResetTime": 150}}', CATALOGUE)
    assert not parsed.rules.frequency
    assert not parsed.complaints


def test_the_first_rule_of_a_code_counts_and_the_next_is_named() -> None:
    one = {"EventId": ["80c98002"], "TimeWindow": 600, "Times": 2, "FaultHandling": MANUAL}
    two = one | {"EventId": ["80AA0001", "80C98002"], "Times": 5}
    parsed = parse(CUSTOMIZATION_FILE, json.dumps({"FaultFrequency": [one, two]}), CATALOGUE)
    assert {code: rule.times for code, rule in parsed.rules.frequency.items()} == {"80C98002": 2, "80AA0001": 5}
    assert [(complaint.key, complaint.why.split(",")[0]) for complaint in parsed.complaints] == [
        ("FaultFrequency[1].EventId[1]", "80C98002 has a rule in FaultFrequency[0] already")
    ]


def test_a_list_that_stands_twice_is_told() -> None:
    """JSON keeps the last one alone: half of the file would be lost without a word."""
    parsed = parse(LEVELS_FILE, '{"SubHealthFaultCodes": ["80AA0001"], "SubHealthFaultCodes": []}', CATALOGUE)
    assert not parsed.rules.levels
    assert [complaint.key for complaint in parsed.complaints] == ["SubHealthFaultCodes"]


def test_the_switch_lists_are_read_in_mindclusters_words() -> None:
    found, complaints = switch(
        {
            "NotHandleFaultCodes": ["[0x00f103b0,155914,L2,na]"],
            "SubHealthFaultCodes": ["[0x08520003,na,L2,na]"],
            "RestartRequestFaultCodes": ["[0x00F103B0,155914,NPU,na]"],
            "PreSeparateFaultCodes": ["[0x00f103b0, 155904, na, na]"],
            "ResetFaultCodes": ["[0x00f103b0,155914,cpu,na]"],
            "SeparateFaultCodes": ["[0x00f103b0,155907,na,na]", "[0x08520003,na,L2,na]"],
        }
    )
    assert complaints == []
    assert found == {
        "[0x00f103b0,155914,L2,na]": FaultLevel.NOT_HANDLE,
        "[0x08520003,na,L2,na]": FaultLevel.SEPARATE_NPU,
        "[0x00f103b0,155914,npu,na]": FaultLevel.RESTART_REQUEST,
        "[0x00f103b0,155904,na,na]": FaultLevel.PRE_SEPARATE_NPU,
        "[0x00f103b0,155914,cpu,na]": FaultLevel.SEPARATE_NPU,
        "[0x00f103b0,155907,na,na]": FaultLevel.SEPARATE_NPU,
    }


def test_every_switch_code_that_ships_has_the_form_that_files_are_read_in() -> None:
    codes = [row.code for row in CATALOGUE.rows().values() if row.kind == "switch"]
    assert len(codes) == 30
    assert [code for code in codes if not is_switch_code(code) or canonical(code) != code] == []


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"SeparateFaultCodes": ["80E18402"]}, "SeparateFaultCodes[0]: '80E18402'"),
        ({"SeparateFaultCodes": ["[0x00f103b0,155904,gpu,na]"]}, "SeparateFaultCodes[0]: "),
        ({"SeparateFaultCodes": [f"[0x00f103b0,{'1' * 40},na,na]"]}, "SeparateFaultCodes[0]: "),
        ({"SeparateFaultCodes": [["[0x00f103b0,155904,na,na]"]]}, "SeparateFaultCodes[0]: "),
        ({"SeparateNPUCodes": ["[0x00f103b0,155904,na,na]"]}, "SeparateNPUCodes: unknown list"),
    ],
)
def test_a_bad_switch_entry_is_skipped_alone_and_named(content: dict[str, Any], word: str) -> None:
    found, complaints = switch(content | {"SubHealthFaultCodes": ["[0x08520003,na,L2,na]"]})
    assert found == {"[0x08520003,na,L2,na]": FaultLevel.SUB_HEALTH}
    assert [complaint.startswith(f"{SWITCH_FILE}: {word}") for complaint in complaints] == [True]


def test_the_nodes_own_file_is_not_read_and_why_not() -> None:
    with pytest.raises(UnusableFile, match="the warden does not ask"):
        parse(NODED_FILE, '{"FaultTypeCode": {}}', CATALOGUE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (LEVELS_FILE, "{"),
        (LEVELS_FILE, "[]"),
        (CUSTOMIZATION_FILE, ""),
        (CUSTOMIZATION_FILE, "[" * 100_000),
        ("faultCodes.json", "{}"),
    ],
    ids=["cut off", "no object", "empty", "nested beyond reason", "another file"],
)
def test_a_file_that_is_none_says_which(name: str, text: str) -> None:
    with pytest.raises(UnusableFile, match=name):
        parse(name, text, CATALOGUE)
