"""The retry ledger: which entries it gets, whose it leaves alone, and what a write of it rests on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from console.scenario.virtual import VirtualCluster
from reconciler.core import fold
from reconciler.core.actions import WriteLedger
from reconciler.core.known import Known
from reconciler.core.ledger import ENTRIES, OURS, SUBJECT
from reconciler.core.ledger_steps import write_ledger
from reconciler.core.plan import plan
from reconciler.core.recovery import Cause, RecoverySpec, RecoveryStatus, WorkloadRef
from reconciler.core.state import World
from tests.core.build import FORCE, Object, ascend_job, job_with_pods, node, pod
from tests.core.worlds import T0, decide, reasons, world_of

NAMESPACE, NAME = "volcano-system", "vcjob-fault-npu-cm"
KEY = "ml/j-uid-j"
FOREIGN = {"UUID": "uid-v", "Times": 2}


def ledger(entries: dict[str, Any] | str, ours: list[str] | None = None, *, version: str = "7") -> Object:
    text = entries if isinstance(entries, str) else json.dumps(entries)
    data = {ENTRIES: text, "fault-node": "[]"} | ({} if ours is None else {OURS: json.dumps(ours)})
    meta = {"name": NAME, "namespace": NAMESPACE, "uid": "u", "resourceVersion": version}
    return {"kind": "RetryLedger", "metadata": meta, "data": data}


def world(*objects: Object, labels: dict[str, str] | None = None) -> World:
    """A cluster with AscendJob `j` that has no pod yet."""
    return world_of([ascend_job("j", labels=FORCE if labels is None else labels), *objects])


def written(of: World) -> dict[str, Any] | None:
    """The entries that are written now; None = nothing is."""
    actions = [action for action in decide(of).actions if isinstance(action, WriteLedger)]
    return json.loads(actions[0].data[ENTRIES]) if actions else None


def entry(times: int) -> dict[str, Any]:
    return {"UUID": "uid-j", "Times": times}


def recovery(name: str, phase: str, charged: int, *, uid: str = "uid-j") -> Object:
    ref = WorkloadRef("mindxdl.gitee.com/v1", "AscendJob", "j", uid)
    spec = RecoverySpec(ref, "ml/j", "Job", "force", Cause("Software"), controller=ref, size=2)
    status = RecoveryStatus(phase, charged=charged, holder="me")
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    return {
        "kind": "Recovery",
        "metadata": meta,
        "spec": msgspec.to_builtins(spec),
        "status": msgspec.to_builtins(status),
    }


def test_a_job_has_its_entry_before_it_has_a_pod() -> None:
    (action,) = (a for a in decide(world()).actions if isinstance(a, WriteLedger))
    assert action.version is None
    assert action.data == {ENTRIES: '{"ml/j-uid-j":{"Times":3,"UUID":"uid-j"}}', OURS: '["ml/j-uid-j"]'}


@pytest.mark.parametrize(
    ("labels", "times"),
    [
        ({"fault-scheduling": "force", "fault-retry-times": "10"}, 10),
        ({"fault-scheduling": "grace", "fault-retry-times": "1"}, 1),
        ({"fault-scheduling": "off", "fault-retry-times": "10"}, None),
        ({"fault-scheduling": "Force", "fault-retry-times": "10"}, None),
        ({"fault-retry-times": "10"}, None),
        ({"fault-scheduling": "force"}, None),
        ({"fault-scheduling": "force", "fault-retry-times": "0"}, None),
        ({"fault-scheduling": "force", "fault-retry-times": "abc"}, None),
    ],
)
def test_only_jobs_that_may_restart_and_retry_have_one(labels: dict[str, str], times: int | None) -> None:
    assert written(world(labels=labels)) == (None if times is None else {KEY: entry(times)})


@pytest.mark.parametrize(
    ("recoveries", "times"),
    [
        ([], 3),
        ([("r1", "Recovered", 1)], 2),
        ([("r1", "Recovered", 0)], 3),
        ([("r1", "Recovered", 1), ("r2", "Superseded", 1), ("r3", "Recovered", 1)], 0),
        ([(f"r{i}", "Recovered", 1) for i in range(5)], 0),
        # The last retry is being used: what fails along with the first pod must find an entry.
        ([("r1", "Recovered", 2), ("r2", "Deleting", 1)], 1),
        ([("r1", "Recovered", 3), ("r2", "Recreating", 0)], 1),
    ],
)
def test_it_says_the_retries_that_are_left(recoveries: list[tuple[str, str, int]], times: int) -> None:
    found = written(world(*job_with_pods("j", ("a", "b"), labels=FORCE), *(recovery(*r) for r in recoveries)))
    assert found == {KEY: entry(times)}


def test_a_job_made_anew_under_its_name_starts_anew() -> None:
    assert written(world(recovery("r1", "Recovered", 3, uid="uid-earlier"))) == {KEY: entry(3)}


def test_nothing_is_written_when_it_says_so_already() -> None:
    assert written(world(ledger({KEY: entry(3)}, [KEY]))) is None


@pytest.mark.parametrize(
    ("entries", "ours", "expected"),
    [
        ({"ml/v-uid-v": FOREIGN}, None, {"ml/v-uid-v": FOREIGN, KEY: entry(3)}),
        ({"ml/v-uid-v": FOREIGN, KEY: entry(9)}, None, {"ml/v-uid-v": FOREIGN, KEY: entry(3)}),
        ({"ml/v-uid-v": "odd", KEY: entry(3)}, [KEY], None),
        ({"ml/gone-uid-g": FOREIGN, KEY: entry(3)}, [KEY, "ml/gone-uid-g"], {KEY: entry(3)}),
        ({"ml/gone-uid-g": FOREIGN, KEY: entry(3)}, [KEY], None),
        ("", [KEY], {KEY: entry(3)}),
        ("null", None, {KEY: entry(3)}),
    ],
)
def test_entries_of_others_stay_and_our_own_go_with_their_job(
    entries: dict[str, Any] | str, ours: list[str] | None, expected: dict[str, Any] | None
) -> None:
    assert written(world(ledger(entries, ours))) == expected


@pytest.mark.parametrize("ours", ["no list", "[1]", '{"ml/v-uid-v": 1}'])
def test_a_broken_list_of_ours_claims_nothing(ours: str) -> None:
    held = ledger({"ml/v-uid-v": FOREIGN})
    held["data"][OURS] = ours
    assert written(world(held)) == {"ml/v-uid-v": FOREIGN, KEY: entry(3)}


@pytest.mark.parametrize("text", ["not json", "[]", "3"])
def test_what_cannot_be_read_is_left_as_it_is_and_said(text: str) -> None:
    broken = world(ledger(text))
    assert written(broken) is None
    assert reasons(decide(broken), SUBJECT) == ["ledger-unreadable"]


@pytest.mark.parametrize(
    ("change", "entries"),
    [
        ({"fault-scheduling": "force", "fault-retry-times": "5"}, {KEY: entry(5)}),
        ({"fault-scheduling": "off", "fault-retry-times": "5"}, {}),
        (None, {}),
    ],
    ids=["another number", "opted out", "gone"],
)
def test_what_is_kept_from_round_to_round_follows_the_job(
    change: dict[str, str] | None, entries: dict[str, Any]
) -> None:
    made, known, other = world(ascend_job("k", labels=FORCE)), Known(), {"ml/k-uid-k": {"UUID": "uid-k", "Times": 3}}
    fold.observe(made, "RetryLedger", "set", ledger({KEY: entry(3)} | other, [KEY, *other]))
    assert not plan(made.snapshot(), T0, known).actions
    job = ascend_job("j", labels=FORCE if change is None else change)
    fold.observe(made, "AscendJob", "gone" if change is None else "set", job)
    (action,) = plan(made.snapshot(), T0, known).actions
    assert isinstance(action, WriteLedger)
    assert json.loads(action.data[ENTRIES]) == entries | other


def test_where_mindclusters_plugin_runs_the_ledger_is_its_own() -> None:
    beside = world(ledger({"ml/v-uid-v": FOREIGN}))
    meta = {"name": "volcano-scheduler-configmap", "namespace": NAMESPACE}
    fold.observe(
        beside,
        "VolcanoSchedulerConfig",
        "set",
        {"metadata": meta, "data": {"volcano-scheduler.conf": "volcano-npu_v7"}},
    )
    assert written(beside) is None


@pytest.mark.parametrize("kinds", [{"Node", "Pod", "AscendJob"}, {"Node", "Pod", "PodGroup"}])
def test_without_pod_groups_or_jobs_to_be_seen_it_is_left_alone(kinds: set[str]) -> None:
    half = world(ledger({"ml/gone-uid-g": FOREIGN}, ["ml/gone-uid-g"]))
    half.kinds = kinds
    assert written(half) is None


def test_an_older_view_does_not_undo_our_own_write() -> None:
    seen = world(ledger({KEY: entry(3)}, [KEY], version="9"))
    fold.observe(seen, "RetryLedger", "set", ledger({}, [], version="8"))
    assert written(seen) is None
    fold.observe(seen, "RetryLedger", "gone", ledger({}, [], version="10"))
    assert written(seen) == {KEY: entry(3)}


@pytest.mark.parametrize(
    ("version", "content_type"), [(None, "application/apply-patch+yaml"), ("7", "application/merge-patch+json")]
)
def test_a_write_rests_on_the_version_that_was_seen(version: str | None, content_type: str) -> None:
    call = next(write_ledger(WriteLedger(version, {ENTRIES: "{}"})))
    assert (call.method, call.path) == ("PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")
    assert call.content_type == content_type
    assert call.body["metadata"].get("resourceVersion") == version


def cluster(*, retries: str = "2") -> VirtualCluster:
    job = job_with_pods("j", ("a", "b"), labels=FORCE | {"fault-retry-times": retries})
    return VirtualCluster([*(node(name) for name in ("a", "b", "node-x", "node-y")), *job])


def kept(of: VirtualCluster) -> dict[str, Any]:
    held = of.store.get("configmaps", NAMESPACE, NAME)
    assert held is not None, "there is no ledger"
    return json.loads(held["data"][ENTRIES])  # type: ignore[no-any-return]


def test_it_follows_the_retries_over_restarts_of_the_warden() -> None:
    virtual = cluster()
    virtual.run_until(1)
    assert kept(virtual) == {KEY: entry(2)}
    virtual.fail("ml/j-master-0")
    virtual.run_until(60)
    assert kept(virtual) == {KEY: entry(1)}
    virtual.restart_reconciler()
    virtual.run_until(130)
    assert kept(virtual) == {KEY: entry(1)}
    assert virtual.retries("ml/j") == {"ml/j": 1}


def test_the_entry_stands_while_the_last_retry_is_used_and_is_zero_after() -> None:
    virtual = cluster(retries="1")
    virtual.run_until(1)
    virtual.fail("ml/j-master-0")
    virtual.run_until(3)
    assert virtual.recoveries[0]["status"]["phase"] in ("Deleting", "Recreating")
    assert kept(virtual) == {KEY: entry(1)}
    virtual.run_until(60)
    assert virtual.recoveries[0]["status"]["phase"] == "Recovered"
    assert kept(virtual) == {KEY: entry(0)}


def test_somebody_elses_entry_between_look_and_write_survives() -> None:
    virtual = cluster()
    virtual.refuse("patch", f"ConfigMap/{NAMESPACE}/{NAME}", status=409)
    theirs = {"apiVersion": "v1", **ledger({"ml/v-uid-v": FOREIGN}), "kind": "ConfigMap"}
    virtual.create(theirs)
    virtual.run_until(5)
    assert kept(virtual) == {"ml/v-uid-v": FOREIGN, KEY: entry(2)}


def test_a_deleted_ledger_is_written_anew() -> None:
    virtual = cluster()
    virtual.run_until(1)
    virtual.delete(f"ConfigMap/{NAMESPACE}/{NAME}")
    virtual.run_until(2)
    assert kept(virtual) == {KEY: entry(2)}


def test_the_entry_goes_with_the_job() -> None:
    virtual = cluster()
    virtual.run_until(1)
    virtual.delete("AscendJob/ml/j")
    virtual.run_until(2)
    assert kept(virtual) == {}


def test_a_world_without_jobs_has_no_ledger() -> None:
    assert written(world_of([node("a"), pod("p", "a", None)])) is None
