"""A policy that could not be planned with is refused where it is read, with the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.core.policy import Policy
from shared.config import ConfigError, convert, load_toml

BAD: list[tuple[str, dict[str, Any]]] = [
    ("hold_down_s", {"isolate": {"hold_down_s": float("inf")}}),
    ("hold_down_s", {"isolate": {"hold_down_s": float("nan")}}),
    ("hold_down_s", {"isolate": {"hold_down_s": -5}}),
    ("settle_s", {"reschedule": {"settle_s": -1}}),
    ("settle_s", {"reschedule": {"settle_s": float("nan")}}),
    ("deletes_per_min", {"budget": {"deletes_per_min": 0}}),
    ("deletes_per_min", {"budget": {"deletes_per_min": -3}}),
    ("budget.restarting", {"budget": {"restarting": "²%"}}),
    ("breaker.nodes", {"breaker": {"nodes": "9" * 5000}}),
    ("min_nodes", {"breaker": {"min_nodes": -1}}),
    ("not_ready_storm", {"detect": {"not_ready_storm": -1}}),
    ("not_ready_storm", {"detect": {"not_ready_storm": float("nan")}}),
    ("agent_silent_after_s", {"detect": {"agent_silent_after_s": float("-inf")}}),
    ("share", {"common_cause": {"share": -1.0}}),
    ("nodes", {"common_cause": {"nodes": 0}}),
]


@pytest.mark.parametrize(("key", "table"), BAD, ids=[f"{key}-{i}" for i, (key, _) in enumerate(BAD)])
def test_a_number_out_of_range_is_refused_by_its_key(key: str, table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        convert(table, Policy, source="policy.toml")
    assert str(refused.value).startswith("policy.toml: ")
    assert key in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_file_that_nests_without_end_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("a = " + "[" * 5000)
    with pytest.raises(ConfigError, match=r"policy\.toml: not TOML: "):
        load_toml(path, Policy)
