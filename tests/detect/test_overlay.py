"""The configuration files in force: what each change leaves in force, and where each rule is said to come from."""

import json
from collections.abc import Mapping

from agent.detect.complaints import Complaint
from agent.detect.duration import DurationRule
from agent.detect.overlay import Overlay, Override
from agent.detect.rules import CUSTOMIZATION_FILE, LEVELS_FILE, SWITCH_FILE, builtin
from shared.model import FaultLevel
from tests.detect.bench import CATALOGUE

SEPARATE = "80E18402"
LINK_DOWN = "81078603"
DURATION = {"EventId": [LINK_DOWN], "FaultTimeout": 20, "RecoverTimeout": 60, "FaultHandling": "PreSeparateNPU"}


def levels(**lists: list[str]) -> str:
    return json.dumps(lists)


def take(overlay: Overlay, files: Mapping[str, str | None]) -> list[Complaint]:
    return overlay.take(overlay.parse(files))


def test_a_rule_that_says_what_ships_is_no_override() -> None:
    overlay = Overlay(CATALOGUE)
    same = {"FaultDuration": [DURATION]}
    take(overlay, {LEVELS_FILE: levels(SeparateNPUCodes=[SEPARATE]), CUSTOMIZATION_FILE: json.dumps(same)})
    assert overlay.overrides() == []
    assert overlay.complaints == []


def test_each_override_names_what_ships_and_its_place() -> None:
    overlay = Overlay(CATALOGUE)
    longer = {"FaultDuration": [DURATION | {"EventId": ["80AA0001"]}, DURATION | {"FaultTimeout": 30}]}
    take(
        overlay,
        {LEVELS_FILE: levels(SubHealthFaultCodes=["80aa0001", "80e18402"]), CUSTOMIZATION_FILE: json.dumps(longer)},
    )
    shipped, new = DurationRule(20, 60, FaultLevel.PRE_SEPARATE_NPU), DurationRule(30, 60, FaultLevel.PRE_SEPARATE_NPU)
    low, high = FaultLevel.SUB_HEALTH, FaultLevel.SEPARATE_NPU
    assert overlay.overrides() == [
        Override("80AA0001", "level", low, None, LEVELS_FILE, "SubHealthFaultCodes[0]"),
        Override(SEPARATE, "level", low, high, LEVELS_FILE, "SubHealthFaultCodes[1]"),
        Override("80AA0001", "duration", shipped, None, CUSTOMIZATION_FILE, "FaultDuration[0]"),
        Override(LINK_DOWN, "duration", new, shipped, CUSTOMIZATION_FILE, "FaultDuration[1]"),
    ]


def test_a_file_that_becomes_unusable_keeps_its_last_good_content_until_it_is_gone() -> None:
    overlay = Overlay(CATALOGUE)
    take(overlay, {LEVELS_FILE: levels(SubHealthFaultCodes=[SEPARATE, "?"])})
    (told,) = take(overlay, {LEVELS_FILE: "{"})
    assert (told.file, told.key) == (LEVELS_FILE, "")
    assert "its last good content stays in force" in told.why
    assert overlay.rules.levels == {SEPARATE: FaultLevel.SUB_HEALTH}
    assert overlay.complaints[0] == told
    assert take(overlay, {LEVELS_FILE: levels()}) == []
    assert (overlay.complaints, overlay.rules) == ([], builtin())
    take(overlay, {LEVELS_FILE: levels(SubHealthFaultCodes=[SEPARATE])})
    assert take(overlay, {LEVELS_FILE: None}) == []
    assert (overlay.files, overlay.overrides(), overlay.rules) == (frozenset(), [], builtin())


def test_a_file_that_was_never_usable_leaves_what_ships_in_force_and_says_so() -> None:
    overlay = Overlay(CATALOGUE)
    (told,) = take(overlay, {SWITCH_FILE: "[]"})
    assert told == Complaint(SWITCH_FILE, "", "must be a JSON object, is list; what ships is in force")
    assert overlay.files == {SWITCH_FILE}
    assert overlay.rules == builtin()
