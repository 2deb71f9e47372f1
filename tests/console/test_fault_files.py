"""config check of MindCluster's files: told by content, every skipped entry with its line, exit code 1."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.cli.fault_files import check, kind_of
from console.cli.json_places import line_of, places
from tests.console.conftest import Run

LEVELS, SWITCH, CUSTOM = "faultCode.json", "SwitchFaultCode.json", "faultCustomization.json"
RULE = {"EventId": ["80C98002"], "TimeWindow": 600, "Times": 2, "FaultHandling": "ManuallySeparateNPU"}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"RestartNPUCodes": []}, LEVELS),
        ({"NotHandleFaultNetworkCodes": []}, LEVELS),
        ({"NotHandleFaultCodes": ["80E18402"]}, LEVELS),
        ({"NotHandleFaultCodes": ["[0x08520003,na,L2,na]"]}, SWITCH),
        ({"SeparateFaultCodes": []}, SWITCH),
        ({"ResetFaultCodes": []}, SWITCH),
        ({"GraceTolerance": {}}, CUSTOM),
        ({"FaultFrequency": [RULE]}, CUSTOM),
        ({"FaultTypeCode": {"SeparateFaultCodes": []}}, "NodeDConfiguration.json"),
        ({"apiVersion": "v1", "kind": "List", "FaultDuration": []}, None),
        ({"something": "else"}, None),
    ],
)
def test_the_content_tells_which_file_it_is(content: dict[str, Any], kind: str | None) -> None:
    text = json.dumps(content, indent=1)
    assert kind_of(text, "my.json") == kind
    assert kind_of(text[:-1], "my.json") == kind, "a file that is cut off too"


def test_a_file_without_a_telling_key_is_told_by_its_name() -> None:
    assert kind_of("{}", SWITCH) == SWITCH
    assert kind_of("{", LEVELS) == LEVELS


BAD = f"""{{
\t"SubHealthFaultCodes": ["80E18402",
\t\t"80E1840?",
\t\t"81078603"],
\t"RestartNPUCodes": [
\t\t"81078603"
\t],
\t"SeperateNPUCodes": ["{"8" * 8}"]
}}
"""


def test_each_skipped_entry_is_named_with_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    file.write_text(BAD)
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert [line.split(": ")[:2] for line in result.stdout.splitlines()] == [
        [f"{file}:3", "SubHealthFaultCodes[1]"],
        [f"{file}:6", "RestartNPUCodes[0]"],
        [f"{file}:8", "SeperateNPUCodes"],
    ]


def test_findings_as_json(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    file.write_text(json.dumps({"FaultFrequency": [RULE, RULE | {"Times": 0}]}, indent=1))
    result = run("config", "check", str(file), "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["file"], found["kind"], found["ok"]) == (str(file), CUSTOM, False)
    assert [(one["line"], one["key"]) for one in found["findings"]] == [(16, "FaultFrequency[1].Times")]


def test_a_good_file_is_usable(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    file.write_text(json.dumps({"FaultFrequency": [RULE]}))
    result = run("config", "check", str(file))
    assert (result.exit_code, result.output) == (0, f"{file}: usable as MindCluster's {CUSTOM}\n")


@pytest.mark.parametrize(
    ("name", "text", "line", "said"),
    [
        (LEVELS, '{"RestartNPUCodes": [\n"80E18402",\n]}', 3, "not JSON"),
        (CUSTOM, '{"FaultDuration": [\n', 2, "not JSON"),
        ("NodeDConfiguration.json", '{"FaultTypeCode": {}}', 1, "does not ask"),
    ],
)
def test_a_file_that_is_not_used_at_all_says_where_and_why(
    name: str, text: str, line: int, said: str, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{file}:{line}: ")
    assert said in result.stdout


def test_a_file_that_is_not_there_is_unusable(run: Run, tmp_path: Path) -> None:
    assert run("config", "check", str(tmp_path / LEVELS)).exit_code == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab[].", max_size=3), inner, max_size=4),
    max_leaves=20,
)


def expected(value: Any, line: int, here: str = "") -> tuple[dict[str, int], int]:
    """Places and the line behind `value` in the layout of json.dumps(indent=1), where each item has its own line."""
    found: dict[str, int] = {}
    items: list[tuple[str, Any]]
    if isinstance(value, dict):
        items = [(f"{here}.{name}" if here else name, one) for name, one in value.items()]
    elif isinstance(value, list):
        items = [(f"{here}[{number}]", one) for number, one in enumerate(value)]
    else:
        items = []
    for place, one in items:
        found[place] = line + 1
        inner, line = expected(one, line + 1, place)
        found |= inner
    return found, line + bool(items)


@given(JSON)
def test_every_place_has_its_line(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert places(text) == expected(value, 1)[0]
    assert places(json.dumps(value)).keys() == places(text).keys()


def test_a_place_that_the_text_does_not_have_is_at_its_parent() -> None:
    found = places('{"FaultFrequency":\n [\n  {"EventId": []}]}')
    assert line_of(found, "FaultFrequency[0].Times") == 3
    assert line_of(found, "FaultDuration") == 1


@given(st.sampled_from([LEVELS, SWITCH, CUSTOM]), st.text(max_size=60) | JSON.map(json.dumps))
def test_whatever_a_file_says_there_is_a_verdict(kind: str, text: str) -> None:
    assert all(1 <= one.line <= text.count("\n") + 1 for one in check(kind, text))
