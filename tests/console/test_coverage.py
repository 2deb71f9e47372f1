"""npu-warden coverage: asked of a real API, by exit code, text and JSON."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.core import coverage, whatif
from tests.console.conftest import Replica, Run, add
from tests.core.build import job_with_pods, node, pod

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = Path(coverage.__file__).read_text() + Path(whatif.__file__).read_text()


def unlabelled(replica: Replica) -> None:
    add(replica.world, *job_with_pods("loner", ("spare-2",), labels={}))


def test_workloads_that_are_covered_end_with_0(run: Run, url: str) -> None:
    result = run("coverage", "--url", url)
    assert result.exit_code == 0, result.output
    assert "serve/llm-prefill" in result.output
    assert "every workload is covered" in result.output


def test_a_gap_is_a_finding_and_says_what_is_missing(run: Run, url: str, replica: Replica) -> None:
    unlabelled(replica)
    result = run("coverage", "--url", url)
    assert result.exit_code == 1
    assert "ml/loner" in result.output
    assert "no label fault-scheduling" in result.output


def test_one_namespace_is_not_concerned_by_the_gaps_of_another(run: Run, url: str, replica: Replica) -> None:
    unlabelled(replica)
    assert run("coverage", "--url", url, "-n", "serve").exit_code == 0
    assert "ml/loner" not in run("coverage", "--url", url, "--namespace", "serve").output
    assert run("coverage", "--url", url, "--namespace", "ml").exit_code == 1
    nothing = run("coverage", "--url", url, "--namespace", "absent")
    assert (nothing.exit_code, nothing.output) == (0, "no workload asks for NPUs\n")


def test_as_json(run: Run, url: str, replica: Replica) -> None:
    unlabelled(replica)
    result = run("coverage", "--url", url, "--json")
    assert result.exit_code == 1
    found: dict[str, dict[str, Any]] = {item["workload"]: item for item in json.loads(result.output)["items"]}
    assert found["llm-prefill"]["chip"]["method"] == "force"
    assert [gap["reason"] for gap in found["loner"]["gaps"]] == ["label-missing"]


def test_what_keeps_the_warden_is_said_first(run: Run, url: str, replica: Replica) -> None:
    replica.world.paused = "maintenance"
    output = run("coverage", "--url", url).output
    assert output.startswith("PAUSED (maintenance)")
    assert "force" in output


def a_job(labels: dict[str, str], *, chips: tuple[int, ...], policy: str) -> list[dict[str, Any]]:
    objects = job_with_pods("j", ("here",), labels=labels)
    objects[1] = pod("j-master-0", "here", objects[0], chips=chips)
    objects[1]["spec"]["restartPolicy"] = policy
    return objects


@pytest.mark.parametrize(
    ("labels", "chips", "policy", "cells"),
    [
        ({"fault-scheduling": "grace", "fault-retry-times": "9"}, (0,), "Never", ["grace", "grace", "grace"]),
        ({"fault-scheduling": "grace"}, (0,), "Never", ["grace", "grace", "no"]),
        ({"fault-scheduling": "force"}, (), "Always", ["-", "force", "kubelet"]),
        ({"fault-scheduling": "off"}, (0,), "Never", ["off", "off", "off"]),
        ({}, (0,), "Never", ["no", "no", "no"]),
    ],
)
def test_one_word_for_each_kind_of_fault(
    labels: dict[str, str], chips: tuple[int, ...], policy: str, cells: list[str], run: Run, url: str, replica: Replica
) -> None:
    add(replica.world, node("here"), node("there"), *a_job(labels, chips=chips, policy=policy))
    output = run("coverage", "--url", url, "-n", "ml").output.splitlines()
    row = next(line for line in output if line.startswith("ml/j"))
    assert row.split()[-3:] == cells


def test_the_words_of_gaps_are_documented() -> None:
    """docs/coverage.md has a row for every word of its own; the others are those of docs/reasons.md."""
    rows = set(re.findall(r"^\| ([a-z-]+) \|", (DOCS / "coverage.md").read_text(), re.MULTILINE)) - {"gap"}
    reasons = re.findall(r"^\| ([a-z-]+) \|", (DOCS / "reasons.md").read_text(), re.MULTILINE)
    own = re.findall(r'(?:Gap\(|reason=)"([a-z-]+)"', SOURCE)
    assert {"opt-out", "policy", "capacity", "tolerates-taint", "terminal-soon"} <= set(own)
    assert set(own) <= rows
    assert rows <= {*reasons, *own}
