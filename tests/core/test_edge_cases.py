"""Cases that an ordinary run never meets, and the table of all of them: each names the test that holds it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from console.scenario.virtual import VirtualCluster, fault
from shared.model import FaultLevel
from tests.core.build import FORCE, Object, job_with_pods, node, pod, pod_set, role_set, storm_service

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "edge-cases.md"
NODES = ("a", "b", "c", "d", "node-x", "node-y", "node-z")
SEPARATE = fault(3, "80E18402", FaultLevel.SEPARATE_NPU)
MASTER, WORKER = "ml/j-master-0", "ml/j-worker-0"


def cluster(objects: list[Object], **more: Any) -> VirtualCluster:
    return VirtualCluster([*(node(name) for name in NODES), *objects], **more)


def struck(objects: list[Object], on: str = "a", **more: Any) -> VirtualCluster:
    """Ten seconds in a chip of this node breaks."""
    seen = cluster(objects, **more)
    seen.run_until(10)
    seen.report(on, [SEPARATE])
    seen.run_until(12)
    return seen


def phases(seen: VirtualCluster) -> list[str]:
    return [recovery["status"]["phase"] for recovery in seen.recoveries]


def pod_sets(*, labels: dict[str, str] = FORCE, group: str | None = None) -> list[Object]:
    """A prefill and a decode PodSet of two pods each, on a, b and c, d."""
    service = storm_service("s")
    roles = role_set("s-r", service)
    found = [service, roles]
    for name, nodes in (("s-r-p-0", ("a", "b")), ("s-r-d-0", ("c", "d"))):
        whole = pod_set(name, roles)
        found.append(whole)
        found += [pod(f"{name}-{i}", on, whole, labels=labels, group=group) for i, on in enumerate(nodes)]
    return found


def test_a_label_that_changes_in_mid_episode_counts_from_the_next_one() -> None:
    seen = cluster(job_with_pods("j", ("a", "b")))
    seen.run_until(10)
    seen.refuse("delete", f"Pod/{WORKER}", status=500, times=3)
    seen.report("a", [SEPARATE])
    seen.run_until(10.6)
    seen.merge("AscendJob/ml/j", {"metadata": {"labels": {"fault-scheduling": "grace"}}})
    seen.run_until(60)
    assert seen.deleted == {MASTER: "force", WORKER: "force"}
    assert seen.recoveries[0]["spec"]["method"] == "force"


def test_a_sibling_that_has_succeeded_goes_with_its_unit() -> None:
    """It is no failure, but while it stands nothing takes its place in a PodSet."""
    objects = pod_sets()
    next(obj for obj in objects if obj["metadata"]["name"] == "s-r-p-0-1")["status"] = {"phase": "Succeeded"}
    seen = struck(objects)
    assert seen.deleted == {"ml/s-r-p-0-0": "force", "ml/s-r-p-0-1": "force"}
    seen.run_until(60)
    assert phases(seen) == ["Recovered"]


def test_a_pod_that_has_succeeded_is_no_reason_for_a_restart() -> None:
    objects = pod_sets()
    next(obj for obj in objects if obj["metadata"]["name"] == "s-r-p-0-0")["status"] = {"phase": "Succeeded"}
    seen = struck(objects)
    assert (seen.deleted, seen.recoveries) == ({}, [])


def test_a_pod_set_on_its_way_out_is_left_to_its_role_set() -> None:
    objects = pod_sets()
    old = next(obj for obj in objects if obj["metadata"]["name"] == "s-r-p-0")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen = struck(objects)
    assert (seen.deleted, seen.recoveries) == ({}, [])
    assert {hold.reason for hold in seen.why("ml/s/s-r-p-0")} == {"owner-deleted"}


def test_one_pod_group_for_all_roles_restarts_no_role_but_the_one_that_is_hit() -> None:
    group: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "s-r", "namespace": "ml", "uid": "uid-group", "labels": {}},
        "status": {"phase": "Running"},
    }
    seen = struck([*pod_sets(group="s-r"), group])
    assert seen.deleted == {"ml/s-r-p-0-0": "force", "ml/s-r-p-0-1": "force"}


@pytest.mark.parametrize("rank", ["0", "1"])
def test_rank_0_takes_nobody_along(rank: str) -> None:
    service = storm_service("s")
    roles = role_set("s-r", service)
    pods = [pod(f"s-r-p-{i}", on, roles, labels=FORCE | {"pod-rescheduling": "on"}) for i, on in enumerate(("a", "b"))]
    pods[0]["metadata"]["annotations"]["hccl/rankIndex"] = rank
    assert struck([service, roles, *pods]).deleted == {"ml/s-r-p-0": "force"}


def test_a_sibling_that_is_still_pending_restarts_too() -> None:
    objects = job_with_pods("j", ("a", "b"))
    objects[2]["spec"]["nodeName"] = None
    objects[2]["status"] = {"phase": "Pending"}
    assert struck(objects).deleted == {MASTER: "force", WORKER: "force"}


def test_names_are_never_taken_apart() -> None:
    """Controllers shorten long names; owners and labels say what belongs together."""
    objects = pod_sets()
    for obj, name in zip([o for o in objects if o["kind"] == "Pod"], ("x", "7-0", "q-w-e-r-t-y", "z-9"), strict=True):
        obj["metadata"]["name"] = name
    assert struck(objects).deleted == {"ml/x": "force", "ml/7-0": "force"}


@pytest.mark.parametrize("dead", [False, True])
def test_a_pod_that_a_finalizer_holds_is_forced_once_and_then_waited_for(dead: bool) -> None:
    objects = job_with_pods("j", ("a", "b"))
    objects[1]["metadata"]["finalizers"] = ["example.com/drain"]
    seen = cluster(objects)
    seen.stick("a")
    asked: list[str] = []
    send = seen.store.request

    def counted(method: str, path: str, **more: Any) -> Any:
        if method == "DELETE" and path.endswith("/j-master-0"):
            asked.append(path)
        return send(method, path, **more)

    seen.store.request = counted  # type: ignore[method-assign]
    seen.run_until(10)
    if dead:
        seen.silence("a")
        seen.set_ready("a", "Unknown")
    else:
        seen.report("a", [SEPARATE])
    seen.run_until(400)
    assert 1 <= len(asked) <= 2, "the name is asked for with grace 1 and 0, or with 0 alone"
    assert phases(seen) == ["Deleting"]
    assert [c["type"] for c in seen.recoveries[0]["status"]["conditions"]] == ["Overdue"]
    off = {"metadata": {"finalizers": None}}
    path = "/api/v1/namespaces/ml/pods/j-master-0"
    seen.store.request("PATCH", path, body=off, content_type="application/merge-patch+json")
    seen.run_until(430)
    assert phases(seen) == ["Recovered"]


def rows() -> list[tuple[str, str, list[str]]]:
    found = []
    for line in TABLE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] not in ("case", "---"):
            found.append((cells[0], cells[1], re.findall(r"`([^`]+)`", cells[2])))
    return found


def test_the_table_is_complete_enough_to_be_of_use() -> None:
    assert len(rows()) >= 50
    assert all(case and rule for case, rule, _ in rows())
    assert len({case for case, _, _ in rows()}) == len(rows())


@pytest.mark.parametrize(("case", "tests"), [(case, tests) for case, _, tests in rows()])
def test_each_case_is_held_by_a_test_that_exists(case: str, tests: list[str]) -> None:
    for name in tests:
        path, _, function = name.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert not function or re.search(rf"def {function}\b", text), f"{case}: {name} does not exist"
