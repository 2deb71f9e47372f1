"""MindCluster's configuration files: what is taken, what is skipped, and what is said about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.detect.rules import CUSTOMIZATION_FILE, LEVELS_FILE, UnusableFile, builtin, parse
from shared.model import FaultLevel
from tests.detect.bench import CATALOGUE

MANUAL = "ManuallySeparateNPU"


def levels(content: dict[str, Any]) -> tuple[dict[str, FaultLevel], list[str]]:
    rules, complaints = parse(LEVELS_FILE, json.dumps(content), CATALOGUE)
    return dict(rules.levels), complaints


def frequency(**entry: Any) -> tuple[bool, list[str]]:
    whole = {"EventId": ["80C98002"], "TimeWindow": 600, "Times": 2, "FaultHandling": MANUAL} | entry
    rules, complaints = parse(CUSTOMIZATION_FILE, json.dumps({"FaultFrequency": [whole]}), CATALOGUE)
    return "80C98002" in rules.frequency, complaints


def duration(**entry: Any) -> tuple[bool, list[str]]:
    whole = {"EventId": ["80C98002"], "FaultTimeout": 5, "RecoverTimeout": 60, "FaultHandling": "SeparateNPU"} | entry
    rules, complaints = parse(CUSTOMIZATION_FILE, json.dumps({"FaultDuration": [whole]}), CATALOGUE)
    return "80C98002" in rules.duration, complaints


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
    assert complaints == ["faultCustomization.json: FaultFrequency[0].EventId: 'nonsense' is no fault code, skipped"]


def test_an_unknown_key_is_told_and_costs_nothing() -> None:
    loaded, complaints = frequency(Comment="why")
    assert loaded
    assert complaints == ["faultCustomization.json: FaultFrequency[0]: unknown key Comment, ignored"]


def test_grace_tolerance_is_accepted() -> None:
    rules, complaints = parse(CUSTOMIZATION_FILE, '{"GraceTolerance": {"WaitDeviceResetTime": 150}}', CATALOGUE)
    assert not rules.frequency
    assert complaints == []


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
