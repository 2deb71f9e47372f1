"""The lines of the benches can be read by machines, and the runner knows its benches."""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator

import pytest

from tests.bench.__main__ import BENCHES, main, run
from tests.bench.line import line, percentile


def test_a_line_has_the_figure_its_spread_its_goal_and_its_machine() -> None:
    told = json.loads(line("plan", "s", [3.0, 1.0, 2.0, 100.123456], goal=5.0))
    assert (told["bench"], told["unit"], told["n"], told["goal"]) == ("plan", "s", 4, 5.0)
    assert (told["value"], told["p50"], told["p99"], told["met"]) == (2.0, 2.0, 100.1, True)
    assert "Python" in told["machine"]
    assert "load" in told["machine"]


def test_a_headline_of_its_own_leaves_the_spread() -> None:
    told = json.loads(line("cpu", "millicores", [1.0, 2.0], value=1.5, note="mean"))
    assert (told["value"], told["p50"], told["p99"], told["goal"], told["note"]) == (1.5, 1.0, 2.0, None, "mean")
    assert told["met"] is None


def test_a_missed_goal_is_said() -> None:
    assert json.loads(line("burst", "s", [3.1, 2.0], value=3.1, goal=3.0))["met"] is False


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == value


def test_all_benches_together_are_bounded() -> None:
    assert sum(BENCHES.values()) <= 15 * 60


def endless() -> Iterator[str]:
    yield line("first", "s", [1.0])
    while True:
        time.sleep(0.01)


def broken() -> Iterator[str]:
    yield line("first", "s", [1.0])
    raise LookupError("nothing there")


@pytest.mark.parametrize(("bench", "why"), [(endless, "TookTooLong"), (broken, "LookupError: nothing there")])
def test_a_bench_that_breaks_or_never_ends_says_so_and_keeps_its_figures(
    bench: Callable[[], Iterator[str]], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = types.ModuleType("tests.bench.tried")
    module.run = bench  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert run("tried", 0.3) == 1
    first, error, took = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["bench"], error["bench"], took["bench"]) == ("first", "tried", "tried_took")
    assert error["error"].startswith(why)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0), "no alarm is left behind"


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_can_be_started(name: str) -> None:
    assert callable(importlib.import_module(f"tests.bench.{name}").run)


def test_an_unknown_bench_is_named_and_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "speed"]) == 2
    said = capsys.readouterr()
    assert "speed" in said.err
    assert said.out == ""
