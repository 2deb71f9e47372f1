"""Which pods restart together, and what their labels allow."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.state import World
from reconciler.core.units import Index, NoUnit, Unit, method_of, retry_limit
from reconciler.workloads import unit_of
from tests.core.build import FORCE, ascend_job, job_with_pods, node, pod, pod_set, role_set, storm_service
from tests.core.worlds import world_of


def found(world: World, name: str) -> Unit | NoUnit:
    return unit_of(world.pods[f"ml/{name}"], Index(world.snapshot()))


def unit(world: World, name: str) -> Unit:
    result = found(world, name)
    assert isinstance(result, Unit), result
    return result


def names(result: Unit) -> list[str]:
    return [p.metadata.name for p in result.pods]


def storm(size: int, *, labels: dict[str, str]) -> list[dict[str, Any]]:
    """One prefill and one decode role; size 2: a PodSet each, size 1: two prefill pods and one decode pod."""
    service = storm_service("s")
    roles = role_set("s-r", service)
    if size == 1:
        pods = [pod(f"s-r-{role}", f"n{i}", roles, labels=labels) for i, role in enumerate(("p-0", "p-1", "d-0"))]
        return [service, roles, *pods]
    sets = [pod_set("s-r-p-0", roles), pod_set("s-r-d-0", roles)]
    pods = [pod(f"{s['metadata']['name']}-{i}", "n", s, labels=labels) for s in sets for i in range(2)]
    return [service, roles, *sets, *pods]


def test_an_ascend_job_is_one_unit_and_leaves_its_neighbour_alone() -> None:
    world = world_of([*job_with_pods("p", ("a", "b")), *job_with_pods("d", ("c", "d"))])
    prefill = unit(world, "p-worker-0")
    assert (prefill.id, prefill.level, prefill.size) == ("ml/p", "Job", 2)
    assert names(prefill) == ["p-master-0", "p-worker-0"]


def test_a_pod_set_is_one_unit() -> None:
    world = world_of(storm(2, labels=FORCE))
    prefill = unit(world, "s-r-p-0-1")
    assert (prefill.id, prefill.level, prefill.size) == ("ml/s/s-r-p-0", "Instance", 2)
    assert names(prefill) == ["s-r-p-0-0", "s-r-p-0-1"]
    assert (prefill.workload.kind, prefill.controller.kind) == ("StormService", "PodSet")


def test_of_size_one_only_the_faulted_pod_restarts_when_the_label_says_so() -> None:
    world = world_of(storm(1, labels=FORCE | {"pod-rescheduling": "on"}))
    one = unit(world, "s-r-p-0")
    assert (one.id, one.level, names(one), one.size) == ("ml/s/s-r-p-0", "Pod", ["s-r-p-0"], 1)


@pytest.mark.parametrize("labels", [FORCE, FORCE | {"pod-rescheduling": "true"}, FORCE | {"pod-rescheduling": "On"}])
def test_of_size_one_without_the_label_all_pods_of_the_role_set_restart(labels: dict[str, str]) -> None:
    world = world_of(storm(1, labels=labels))
    whole = unit(world, "s-r-p-0")
    assert (whole.id, whole.level, names(whole)) == ("ml/s/s-r", "Instance", ["s-r-d-0", "s-r-p-0", "s-r-p-1"])


def test_a_bare_pod_has_no_unit() -> None:
    result = found(world_of([pod("x", "a", None)]), "x")
    assert isinstance(result, NoUnit)
    assert result.reason == "no-owner"


@pytest.mark.parametrize("kind", ["job", "podset"])
def test_a_pod_whose_owner_is_gone_has_no_unit(kind: str) -> None:
    objects = job_with_pods("j", ("a",)) if kind == "job" else storm(2, labels={})
    world = world_of([obj for obj in objects if obj["kind"] == "Pod"])
    result = found(world, "j-master-0" if kind == "job" else "s-r-p-0-0")
    assert isinstance(result, NoUnit)
    assert result.reason == "owner-deleted"


@pytest.mark.parametrize(
    ("conditions", "deleted", "reason"),
    [
        ([{"type": "Failed", "status": "True"}], None, "owner-terminal"),
        ([{"type": "Succeeded", "status": "True"}], None, "owner-terminal"),
        ([{"type": "Running", "status": "True"}, {"type": "Failed", "status": "False"}], None, None),
        ([], "2026-01-01T00:00:00Z", "owner-deleted"),
    ],
)
def test_a_job_that_creates_no_pods_any_more_is_not_restarted(
    conditions: list[dict[str, str]], deleted: str | None, reason: str | None
) -> None:
    job, *pods = job_with_pods("j", ("a",))
    job["status"] = {"conditions": conditions}
    if deleted:
        job["metadata"]["deletionTimestamp"] = deleted
    blocked = unit(world_of([job, *pods]), "j-master-0").blocked
    assert (blocked[0] if blocked else None) == reason


@pytest.mark.parametrize(
    ("retry_label", "spec_limit", "version", "blocked"),
    [
        ("2", None, "1", False),
        ("2", None, "2", True),
        ("2", 0, "9", False),
        ("2", 5, "4", False),
        ("2", 5, "5", True),
        ("0", None, "9", False),
        ("abc", None, "9", False),
    ],
)
def test_the_delete_that_would_end_the_job_is_not_sent(
    retry_label: str, spec_limit: int | None, version: str, blocked: bool
) -> None:
    job = ascend_job("j", labels={"fault-scheduling": "force", "fault-retry-times": retry_label}, replicas=1)
    if spec_limit is not None:
        job["spec"]["runPolicy"] = {"backoffLimit": spec_limit}
    world = world_of([job, pod("j-master-0", "a", job, labels={"version": version})])
    assert (unit(world, "j-master-0").blocked is not None) is blocked


@pytest.mark.parametrize(
    ("on_owner", "on_pod", "on_group", "method", "reason"),
    [
        ("force", None, None, "force", ""),
        (None, "grace", None, "grace", ""),
        (None, None, "force", "force", ""),
        ("force", "force", "force", "force", ""),
        (None, None, None, None, "label-missing"),
        ("off", None, None, None, "label-off"),
        ("Force", None, None, None, "label-invalid"),
        ("", None, None, None, "label-invalid"),
        ("external-force", None, None, None, "label-invalid"),
        ("force", "grace", None, None, "label-invalid"),
        ("force|grace", None, None, None, "label-invalid"),
        (" force", None, None, None, "label-invalid"),
        ("force", None, "off", None, "label-invalid"),
    ],
)
def test_fault_scheduling_counts_where_it_stands_and_never_contradicts(
    on_owner: str | None, on_pod: str | None, on_group: str | None, method: str | None, reason: str
) -> None:
    def labels(value: str | None) -> dict[str, str]:
        return {} if value is None else {"fault-scheduling": value}

    job = ascend_job("j", labels=labels(on_owner), replicas=1)
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "ml", "labels": labels(on_group)}}
    world = world_of([node("a"), job, group, pod("j-master-0", "a", job, labels=labels(on_pod), group="g")])
    result = method_of(unit(world, "j-master-0"), Index(world.snapshot()))
    assert (result.name, result.reason) == (method, reason)


@pytest.mark.parametrize(
    ("values", "limit"),
    [(("3",), 3), (("3", "3"), 3), (("0",), None), (("-1",), None), (("abc",), None), (("3", "4"), None), ((), None)],
)
def test_retries_need_one_number_above_zero(values: tuple[str, ...], limit: int | None) -> None:
    roles = role_set("r", storm_service("s"))
    whole = pod_set("r-p-0", roles)
    pods = [pod(f"r-p-0-{i}", "a", whole, labels={"fault-retry-times": v}) for i, v in enumerate(values)]
    world = world_of([roles, whole, pod("r-p-0-9", "a", whole), *pods])
    assert retry_limit(unit(world, "r-p-0-9"), Index(world.snapshot())) == limit
