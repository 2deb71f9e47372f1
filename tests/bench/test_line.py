"""The lines of the benches can be read by machines, and the runner knows its benches."""

from __future__ import annotations

import importlib
import json

import pytest

from tests.bench.__main__ import BENCHES, main
from tests.bench.line import line, percentile


def test_a_line_has_the_figure_its_spread_its_goal_and_its_machine() -> None:
    told = json.loads(line("plan", "s", [3.0, 1.0, 2.0, 100.123456], goal=5.0))
    assert (told["bench"], told["unit"], told["n"], told["goal"]) == ("plan", "s", 4, 5.0)
    assert (told["value"], told["p50"], told["p99"]) == (2.0, 2.0, 100.1)
    assert "Python" in told["machine"]
    assert "load" in told["machine"]


def test_a_headline_of_its_own_leaves_the_spread() -> None:
    told = json.loads(line("cpu", "millicores", [1.0, 2.0], value=1.5, note="mean"))
    assert (told["value"], told["p50"], told["p99"], told["goal"], told["note"]) == (1.5, 1.0, 2.0, None, "mean")


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == value


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_can_be_started(name: str) -> None:
    assert callable(importlib.import_module(f"tests.bench.{name}").run)


def test_an_unknown_bench_is_named_and_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "speed"]) == 2
    said = capsys.readouterr()
    assert "speed" in said.err
    assert said.out == ""
