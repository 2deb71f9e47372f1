"""Which logs are asked for, and how little room they may take."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import kept_logs
from reconciler.core.kept_logs import CONTAINERS, POD_BYTES, RECOVERY_BYTES, ContainerLog, fitted, wanted
from reconciler.core.objects import Meta, Node, Pod
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, WorkloadRef
from tests.core.build import node, pod

RECOVERY = Recovery(
    Meta(name="llm-1", namespace="ml", uid="r"),
    RecoverySpec(WorkloadRef("v1", "Pod", "x", "u"), "ml/x", "Pod", "force", Cause("Hardware")),
)


def a_pod(name: str, on: str | None, *containers: str) -> Pod:
    made = pod(name, on, None)
    made["spec"]["containers"] = [{"name": one} for one in containers or ("main",)]
    return msgspec.convert(made, Pod)


def nodes(**ready: str) -> dict[str, Node]:
    return {name: msgspec.convert(node(name, ready=status), Node) for name, status in ready.items()}


@pytest.mark.parametrize(
    ("on", "why"), [("a", None), ("dead", "does not answer"), ("gone", "does not answer"), (None, "no node")]
)
def test_a_node_that_is_not_there_is_not_asked(on: str | None, why: str | None) -> None:
    (one,) = wanted([a_pod("p", on)], nodes(a="True", dead="Unknown"))
    assert (one.missing is None) if why is None else (one.missing is not None and why in one.missing)


def test_containers_beyond_the_limit_are_named() -> None:
    pods = [a_pod(f"p{number}", "a", "x", "y") for number in range(CONTAINERS)]
    found = wanted(pods, nodes(a="True"))
    assert len(found) == 2 * CONTAINERS
    assert sum(one.missing is None for one in found) == CONTAINERS
    assert "left out" in str(found[-1].missing)


def test_what_is_asked_for() -> None:
    (one,) = wanted([a_pod("p", "a", "serve")], nodes(a="True"))
    path, query = kept_logs.path_of("ml", one)
    assert path == "/api/v1/namespaces/ml/pods/p/log"
    assert dict(query)["container"] == "serve"
    assert dict(query)["tailLines"] == "50"


@given(st.lists(st.tuples(st.sampled_from("pqrs"), st.text(max_size=40_000)), max_size=12))
def test_never_more_than_there_is_room_for(given_: list[tuple[str, str]]) -> None:
    logs = [ContainerLog(name, f"c{number}", "a", text) for number, (name, text) in enumerate(given_)]
    kept = fitted(logs)
    assert [one.container for one in kept] == [one.container for one in logs]
    for name in {one.pod for one in kept}:
        assert sum(len(msgspec.json.encode(one.text)) for one in kept if one.pod == name and one.text) <= POD_BYTES
    for before, now in zip(logs, kept, strict=True):
        assert before.text.endswith(now.text)
        assert now.cut == (now.text != before.text)


def test_the_whole_object_stays_small() -> None:
    logs = [ContainerLog(f"p{number}", "main", "a", "\x01" * 60_000) for number in range(64)]
    assert len(json.dumps(kept_logs.configmap(RECOVERY, logs))) < 3 * RECOVERY_BYTES < 1_000_000


def test_the_end_of_a_log_stays_and_begins_with_a_whole_line() -> None:
    text = "\n".join(f"line {number} {'x' * 500}" for number in range(100))
    (kept,) = fitted([ContainerLog("p", "c", "a", text)])
    assert kept.cut
    assert kept.text.startswith("line ")
    assert kept.text.endswith(text[-100:])


def test_what_is_written_is_read_again_and_nobody_elses() -> None:
    logs = [ContainerLog("p", "c", "a", "last words"), ContainerLog("q", "c", None, missing="why")]
    body = kept_logs.configmap(RECOVERY, logs)
    assert kept_logs.read(body, RECOVERY) == logs
    other = msgspec.structs.replace(RECOVERY, metadata=Meta(name="llm-1", namespace="ml", uid="another"))
    assert kept_logs.read(body, other) is None


@pytest.mark.parametrize("data", [None, {}, {"logs.json": "x"}, {"logs.json": "[1]"}, {"logs.json": 3}])
def test_what_somebody_has_written_into_it_is_not_shown(data: Any) -> None:
    body = {**kept_logs.configmap(RECOVERY, []), "data": data}
    assert kept_logs.read(body, RECOVERY) is None
