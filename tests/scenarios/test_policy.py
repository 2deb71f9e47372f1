"""Policy scenarios: our own files, the ones beside the checkout, and what is said about files that cannot be run."""

import copy
from pathlib import Path
from typing import Any

import pytest

from console.scenario.common import ScenarioError, convert, load
from console.scenario.policy import play, run_policy, start
from console.scenario.policy_format import PolicyScenario

OWN = Path(__file__).parent / "policy"
SHARED = Path(__file__).parents[3] / "shared" / "scenarios" / "policy"

HOLDS = {
    "01-chip-fault-restarts-the-instance",
    "02-chip-not-used-by-the-pod",
    "04-grace-turns-to-force-after-900s",
    "05-label-off",
    "07-label-in-the-wrong-case",
    "08-dead-node-forces-the-instance",
    "10-fault-heals-before-the-taint-could-be-written",
    "10-restart-request-ends-within-60s",
    "11-fault-heals-after-the-deletion",
    "13-retries-exhausted",
    "14-no-retry-label",
    "16-hardware-and-software-at-once",
    "17-container-that-restarted-and-runs-is-no-fault",
    "19-coordinator-node-not-ready-moves-one-pod",
    "20-coordinator-falls-back-to-the-job",
    "201-coordinator-waits-for-capacity",
    "202-silence-never-kills",
    "203-silence-keeps-an-open-isolation",
    "205-backoff-limit-of-the-operator",
    "206-fault-gone-before-the-delete",
    "207-second-fault-on-the-other-coordinator-pod",
    "211-labels-disagree",
    "212-opt-out-node",
    "214-unconfirmed-fault-taints-only",
    "215-operator-isolates-and-releases",
    "217-redis-away-during-a-fault",
    "218-one-code-everywhere-is-suspect",
    "22-coordinator-without-pod-rescheduling",
    "23-pod-rescheduling-true-is-not-on",
    "25-coordinator-and-controller-share-a-dead-node",
    "26-pod-rescheduling-on-a-server-is-ignored",
    "28-prefill-and-decode-hit",
    "29-neighbour-on-the-same-node-stays",
    "31-failed-engine-restarts-its-podset",
    "32-podset-retries-exhausted",
    "34-podset-controller-recreates-as-well",
    "35-terminating-pod-on-a-dead-node-is-forced",
    "37-size-one-without-pod-rescheduling",
    "38-rank-zero-is-not-special",
    "40-only-the-faulted-roleset",
    "41-one-podgroup-for-all-roles",
    "43-infer-operator-does-the-deleting",
    "44-infer-operator-without-gang",
    "46-leaderworkerset-group",
    "47-single-pod-instance-never-escalates",
    "49-faulty-node-without-pods",
    "50-sub-health-is-ignored-by-default",
    "52-sub-health-grace-exit",
    "53-not-handle-fault",
    "55-second-fault-during-the-restart",
    "56-replacement-bound-to-the-faulty-node",
    "58-capacity-arrives",
    "59-decode-without-a-spare-leaves-prefill-alone",
    "61-namespace-terminating",
    "62-bare-pod",
    "65-api-server-refuses-one-of-two-deletes",
    "67-new-leader-in-mid-episode",
    "70-disruption-budget-does-not-stop-it",
    "73-cordoned-node",
    "74-taint-removed-by-hand",
    "76-default-scheduler-job",
    "76-default-scheduler-statefulset",
    "77-mindcluster-scheduler-plugin-acts",
    "79-pending-sibling-restarts-too",
    "80-controller-with-one-replica",
    "85-owner-terminal",
    "86-crash-loop-ends-with-the-retries",
    "88-sibling-deleted-by-someone-else",
}
"""Files beside the checkout that must hold; `pytest -s` tells of the others."""


def _hold(path: Path) -> None:
    """Everything expected holds, and the plan came to rest at every instant."""
    scenario = convert(load(path), PolicyScenario)
    cluster = start(path.parent, scenario)
    assert play(scenario, cluster) == []
    assert cluster.warden.unsettled == []


@pytest.mark.parametrize("path", sorted(OWN.glob("*.yaml")), ids=lambda path: path.stem)
def test_own_scenario_holds(path: Path) -> None:
    _hold(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SHARED.glob("[0-9]*.yaml")), ids=lambda path: path.stem)
def test_scenario_beside_the_checkout(path: Path) -> None:
    """Each can be read and run; those of HOLDS hold."""
    if path.stem in HOLDS:
        _hold(path)
        return
    result = run_policy(path, load(path))
    print(f"{'holds by now' if result.ok else 'FAILS'}: {path.stem}")
    assert result.name


def test_what_must_hold_is_there(shared_dir: Path) -> None:
    assert {path.stem for path in (shared_dir / "scenarios" / "policy").glob("[0-9]*.yaml")} >= HOLDS


def minimal() -> dict[str, Any]:
    return {
        "kind": "policy",
        "name": "one node",
        "objects": ["objects/fleet.yaml", "objects/llm.yaml"],
        "timeline": [{"at": 5, "report": {"node": "alpha", "faults": []}}],
        "expect": [{"at": 10, "untouched": True}],
    }


FAULT = {"chip": 3, "code": "80E18402", "level": "SeparateNPU"}


def with_fault(**changes: Any) -> dict[str, Any]:
    return {"timeline": [{"at": 5, "report": {"node": "alpha", "faults": [{**FAULT, **changes}]}}]}


def step(**keys: Any) -> dict[str, Any]:
    return {"timeline": [{"at": 5, **keys}]}


BAD = [
    ("unknown key", {"objekts": []}, ["objekts"]),
    ("unknown key of a step", step(raport={}), ["raport", "$.timeline[0]"]),
    ("a time in milliseconds", {"timeline": [{"at": 100000000, "silent": "alpha"}]}, ["$.timeline[0].at", "604800"]),
    ("unknown key of a fault", with_fault(chipp=3), ["chipp", "$.timeline[0].report.faults[0]"]),
    ("code without quotes", with_fault(code=80), ["$.timeline[0].report.faults[0].code", "quote it"]),
    ("no such level", with_fault(level="Separate"), ["Separate", "$.timeline[0].report.faults[0].level"]),
    ("two steps in one", step(silent="alpha", stuck="alpha"), ["timeline[0]", "silent, stuck"]),
    ("a time and nothing else", step(), ["timeline[0]", "none"]),
    ("a time before the start", {"timeline": [{"at": -1, "silent": "alpha"}]}, ["$.timeline[0].at"]),
    ("two hands at once", step(operator={"isolate": "alpha", "resume": True}), ["timeline[0].operator"]),
    ("a resume that is none", step(operator={"resume": False}), ["timeline[0].operator", "resume"]),
    ("no such pod", step(fail={"pod": "serve/nobody"}), ["timeline[0].fail", "serve/nobody"]),
    ("no such node", step(ready={"node": "zulu", "status": "True"}), ["timeline[0].ready", "zulu"]),
    ("true is not True", step(ready={"node": "alpha", "status": True}), ["$.timeline[0].ready.status"]),
    ("no such kind", step(delete="Pods/serve/x"), ["timeline[0].delete", "Pods/serve/x"]),
    ("a namespace is missing", step(delete="Pod/llm-prefill-master-0"), ["Kind/namespace/name"]),
    ("a status nobody answers", step(refuse={"verb": "get", "target": "Node/alpha", "status": 418}), ["status"]),
    ("not an object", step(create={"kind": "Node"}), ["timeline[0].create", "metadata"]),
    ("there already", step(create={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "alpha"}}), ["already"]),
    ("merge into nothing", {"merge": [{"target": "Node/zulu", "patch": {}}]}, ["merge[0]", "Node/zulu"]),
    (
        "an unquoted off",
        {"merge": [{"target": "Node/alpha", "patch": {"metadata": {"labels": {"fault-scheduling": False}}}}]},
        ["merge[0]", "fault-scheduling", "quote it"],
    ),
    ("no such objects file", {"objects": ["nothing.yaml"]}, ["nothing.yaml", "cannot be read"]),
    ("unknown key of the policy", {"policy": {"isolate": {"hold_s": 3}}}, ["hold_s", "$.policy.isolate"]),
    ("a policy out of bounds", {"policy": {"budget": {"restarting": "ten"}}}, ["budget.restarting"]),
    ("unknown key of an expectation", {"expect": [{"at": 1, "tainted": {}, "gone": {}}]}, ["gone", "$.expect[0]"]),
    ("a condition of no node", {"expect": [{"at": 1, "condition": {"zulu": "True"}}]}, ["expect[0]", "zulu"]),
]


@pytest.mark.parametrize(("changes", "words"), [(c, w) for _, c, w in BAD], ids=[name for name, _, _ in BAD])
def test_a_file_that_cannot_be_run_is_one_error_that_names_the_key(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_policy(OWN / "x.yaml", {**minimal(), **changes})
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_minimal_scenario_holds() -> None:
    result = run_policy(OWN / "x.yaml", minimal())
    assert result.ok
    assert result.name == "one node"


WRONG = [
    ({"deleted": {"serve/llm-prefill-master-0": "force"}}, "deleted"),
    ({"tainted": {}}, "tainted"),
    ({"recoveries": [{"phase": "Aborted"}]}, "recoveries"),
    ({"untouched": True}, "untouched"),
    ({"retries": {"serve/llm-prefill": 1}}, "retries of serve/llm-prefill"),
    ({"why": {"serve/llm-prefill": "paused"}}, "why of serve/llm-prefill"),
    ({"events": ["NPUIsolated", "NeverHeardOf"]}, "NeverHeardOf"),
    ({"condition": {"alpha": "True"}}, "condition of alpha"),
]


@pytest.mark.parametrize(
    ("items", "ok"),
    [
        ([], False),
        ([{}], False),
        ([{}, {}], True),
        ([{}, {}, {}], False),
        ([{"unit": "serve/llm-decode"}, {"unit": "serve/llm-prefill"}], True),
        ([{"unit": "serve/llm-prefill"}, {"level": "Job"}], True),
        ([{"level": "Job"}, {"unit": "serve/llm-decode"}], True),
        ([{"unit": "serve/llm-decode"}, {"unit": "serve/llm-decode"}], False),
        ([{"unit": "serve/llm-decode"}, {"unit": "serve/llm"}], False),
    ],
)
def test_each_recovery_expected_is_one_of_its_own(items: list[dict[str, str]], ok: bool) -> None:
    reports = [
        {"at": at, "report": {"node": node, "faults": [{**FAULT, "chip": 0}]}}
        for at, node in ((5, "alpha"), (20, "charlie"))
    ]
    expect = [{"at": 30, "recoveries": items}]
    assert run_policy(OWN / "x.yaml", {**minimal(), "timeline": reports, "expect": expect}).ok is ok


@pytest.mark.parametrize(("wrong", "word"), WRONG, ids=[word for _, word in WRONG])
def test_what_does_not_hold_is_told_with_its_time_and_both_sides(wrong: dict[str, Any], word: str) -> None:
    raw = copy.deepcopy({**minimal(), **with_fault(chip=0)})
    raw["expect"] = [{"at": 40, **wrong}]
    result = run_policy(OWN / "x.yaml", raw)
    assert not result.ok
    assert len(result.failures) == 1
    assert word in result.failures[0]
    assert result.failures[0].startswith("at 40: ")
    assert "expected" in result.failures[0]
    assert ", got " in result.failures[0]
