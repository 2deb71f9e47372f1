"""docs/outages.md names metrics and words that exist."""

import re

import pytest

from agent.metrics import Metrics as AgentMetrics
from reconciler.metrics import Metrics as ReconcilerMetrics
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "outages.md").read_text()


def names_of(letter: str) -> set[str]:
    """The metrics that stand behind "R" or "A" in the last column, without their labels."""
    rows = [line.split("|")[-2] for line in PAGE.splitlines() if line.startswith("|")]
    parts = [part.strip() for row in rows for part in re.split(r";", row)]
    found = [part for part in parts if part.startswith(f"{letter} ")]
    return {name for part in found for name in re.findall(r"`([a-z_]+)(?:\{[^`]*\})?`", part)}


@pytest.mark.parametrize(
    ("letter", "metrics", "prefix"),
    [("R", ReconcilerMetrics(), "npuwarden_reconciler_"), ("A", AgentMetrics(), "npuwarden_agent_")],
)
def test_every_metric_it_names_is_there(letter: str, metrics: ReconcilerMetrics | AgentMetrics, prefix: str) -> None:
    families = list(metrics.registry.collect())
    known = {f.name for f in families} | {f"{f.name}_total" for f in families if f.type == "counter"}
    named = names_of(letter)
    assert named
    assert {name for name in named if f"{prefix}{name}" not in known} == set()
