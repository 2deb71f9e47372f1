"""The fault catalogue: complete, checked when loaded, and with one rule for what it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.catalog import Catalogue, CatalogueError, Row, parse
from shared.model import FaultLevel
from shared.names import CODE_CARD_LOST, CODE_LINK_DOWN, CODE_MONITOR_BLIND, CODE_PROBE_FAILING
from tests.detect.bench import CATALOGUE

FACTS = Path(__file__).parents[2] / "../shared/facts/fault-codes.json"
OTHER_WORDS = {
    "PreSeparateFault": "PreSeparateNPU",
    "SeparateFault": "SeparateNPU",
    "RestartRequestFault": "RestartRequest",
}


@pytest.mark.parametrize(
    ("code", "level"),
    [
        ("80E01801", FaultLevel.RESTART_BUSINESS),
        ("80E18402", FaultLevel.SEPARATE_NPU),
        ("020001002", FaultLevel.SEPARATE_NPU),
        ("A2301001", FaultLevel.SEPARATE_NPU),
        ("[0x00f1fef5,155914,npu,na]", FaultLevel.RESTART_REQUEST),
        (CODE_CARD_LOST, FaultLevel.RESTART_NPU),
        (CODE_LINK_DOWN, FaultLevel.NOT_HANDLE),
        (CODE_MONITOR_BLIND, FaultLevel.PRE_SEPARATE_NPU),
        (CODE_PROBE_FAILING, FaultLevel.NOT_HANDLE),
    ],
)
def test_known_codes(code: str, level: FaultLevel) -> None:
    row = CATALOGUE.lookup(code)
    assert row is not None
    assert row.level is level


@pytest.mark.skipif(not FACTS.exists(), reason="the vendor's table is not beside the checkout")
def test_has_every_code_of_the_vendor_with_its_level() -> None:
    expected: dict[str, FaultLevel] = {}
    rows = json.loads(FACTS.read_text(encoding="utf-8"))
    for row in rows:
        level = FaultLevel(OTHER_WORDS.get(row["level"], row["level"]))
        expected[row["code"]] = max(level, expected.get(row["code"], level))
    assert len(rows) == 922
    ours = {code: row.level for code, row in CATALOGUE.rows().items() if not code.startswith("NW-")}
    assert ours == expected
    assert {row["code"]: row["kind"] for row in rows} == {code: CATALOGUE.rows()[code].kind for code in expected}


@pytest.mark.parametrize(
    ("code", "severity", "health", "level"),
    [
        pytest.param("80FEED01", 0, 3, FaultLevel.NOT_HANDLE, id="hint"),
        pytest.param("80FEED01", 1, 3, FaultLevel.NOT_HANDLE, id="minor"),
        pytest.param("80FEED01", 2, 0, FaultLevel.SEPARATE_NPU, id="major, whatever the chip's health"),
        pytest.param("80FEED01", 3, None, FaultLevel.SEPARATE_NPU, id="critical"),
        pytest.param("80FEED01", None, None, FaultLevel.PRE_SEPARATE_NPU, id="nothing known"),
        pytest.param("80FEED01", None, 1, FaultLevel.NOT_HANDLE, id="nothing active is worse than minor"),
        pytest.param("80FEED01", None, 3, FaultLevel.PRE_SEPARATE_NPU, id="it may be this one that is critical"),
        pytest.param("210009999", 3, None, FaultLevel.PRE_SEPARATE_NPU, id="network"),
    ],
)
def test_rule_for_unknown_codes(code: str, severity: int | None, health: int | None, level: FaultLevel) -> None:
    assert CATALOGUE.lookup(code) is None
    assert CATALOGUE.unknown_level(code, severity=severity, health=health) is level


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        pytest.param([], "no rows", id="empty"),
        pytest.param([Row("80E18402", FaultLevel.SEPARATE_NPU, "chip")] * 2, "80E18402.*twice", id="twice"),
        pytest.param([Row("80e18402", FaultLevel.SEPARATE_NPU, "chip")], "80e18402", id="lower case"),
        pytest.param([Row("80E18402", FaultLevel.SEPARATE_NPU, "switch")], "80E18402", id="no switch code"),
    ],
)
def test_refuses_bad_rows(rows: list[Row], word: str) -> None:
    with pytest.raises(CatalogueError, match=word):
        Catalogue(rows)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param("rows = []", "own.toml: no rows", id="empty"),
        pytest.param('rows = [{ code = "80E18402", level = "Separate", kind = "chip" }]', "Separate", id="no level"),
        pytest.param('rows = [{ code = "80E18402", level = "SeparateNPU" }]', "kind", id="kind missing"),
        pytest.param('rows = [{ code = "1", level = "SeparateNPU", kind = "chip", x = 1 }]', "x", id="unknown key"),
        pytest.param("rows = [", "own.toml", id="no TOML"),
    ],
)
def test_a_bad_data_file_is_named(text: str, word: str) -> None:
    with pytest.raises(CatalogueError, match=word):
        parse(text, source="own.toml")
