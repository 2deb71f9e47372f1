"""The object store answers as a real API server does: codes, versions, preconditions, graceful deletion."""

from __future__ import annotations

from typing import Any

import pytest

from console.lab.cluster.journal import Change
from console.lab.cluster.resources import BY_PLURAL, PODS
from console.lab.cluster.store import Store

NODE = "/api/v1/nodes/node-a"
PODS_PATH = "/api/v1/namespaces/default/pods"
POD = f"{PODS_PATH}/worker-0"
TAINT = {"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}


class Clock:
    """A wall clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_767_229_200.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Store:
    """A cluster with one node and one pod bound to it."""
    store = Store(Clock())
    assert store.request("POST", "/api/v1/nodes", body={"metadata": {"name": "node-a"}}).status == 201
    pod = {"metadata": {"name": "worker-0", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "ascend"}]}}
    assert store.request("POST", PODS_PATH, body=pod).status == 201
    assert store.request("POST", f"{POD}/binding", body={"target": {"name": "node-a"}}).status == 201
    return store


def meta(store: Store, path: str) -> dict[str, Any]:
    """The metadata of one object."""
    reply = store.request("GET", path)
    assert reply.status == 200, reply.body
    metadata: dict[str, Any] = reply.body["metadata"]
    return metadata


def test_a_new_object_gets_system_metadata_and_no_status_of_the_client(store: Store) -> None:
    body = {
        "metadata": {"generateName": "p-", "uid": "mine"},
        "spec": {"containers": []},
        "status": {"phase": "Failed"},
    }
    pod = store.request("POST", PODS_PATH, body=body).body
    assert pod["metadata"]["name"].startswith("p-")
    assert len(pod["metadata"]["name"]) == 7
    assert pod["metadata"]["uid"] not in ("", "mine")
    assert pod["metadata"]["namespace"] == "default"
    assert pod["metadata"]["creationTimestamp"] == "2026-01-01T01:00:00Z"
    assert pod["status"] == {"phase": "Pending"}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30


def test_resource_versions_grow_over_all_kinds_and_a_write_without_change_is_none(store: Store) -> None:
    before = int(meta(store, NODE)["resourceVersion"])
    patch = {"metadata": {"labels": {"rack": "r1"}}}
    first = store.request("PATCH", NODE, body=patch, content_type="application/merge-patch+json").body
    again = store.request("PATCH", NODE, body=patch, content_type="application/merge-patch+json").body
    assert int(first["metadata"]["resourceVersion"]) > before
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("GET", f"{PODS_PATH}/nobody", None, 404, "NotFound"),
        ("GET", "/apis/example.com/v1/things", None, 404, "NotFound"),
        ("POST", PODS_PATH, {"metadata": {"name": "worker-0"}, "spec": {}}, 409, "AlreadyExists"),
        ("POST", PODS_PATH, {"metadata": {"name": "UPPER"}, "spec": {}}, 422, "Invalid"),
        ("POST", PODS_PATH, {"metadata": {"name": "x", "namespace": "other"}}, 400, "BadRequest"),
        ("POST", PODS_PATH, {"kind": "Node", "metadata": {"name": "x"}}, 400, "BadRequest"),
        ("POST", "/api/v1/namespaces/nowhere/pods", {"metadata": {"name": "x"}}, 404, "NotFound"),
        ("POST", "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs", {"metadata": {"name": "x"}}, 400, ""),
        ("POST", f"{POD}/binding", {"target": {"name": "node-b"}}, 409, "Conflict"),
        ("POST", f"{POD}/eviction", {}, 404, "NotFound"),
        ("PUT", NODE, {"metadata": {"name": "node-a", "resourceVersion": "1"}}, 409, "Conflict"),
        ("PUT", NODE, {"metadata": {"name": "node-b"}}, 400, "BadRequest"),
        ("PUT", NODE, {"metadata": {"name": "node-a", "uid": "other"}}, 409, "Conflict"),
        ("PUT", "/api/v1/nodes", {}, 405, "MethodNotAllowed"),
        ("PUT", POD, {"metadata": {"name": "worker-0"}, "spec": {"nodeName": "node-b"}}, 422, "Invalid"),
        ("DELETE", POD, {"preconditions": {"uid": "other"}}, 409, "Conflict"),
        ("DELETE", POD, {"preconditions": {"resourceVersion": "1"}}, 409, "Conflict"),
        ("DELETE", f"{PODS_PATH}/nobody", None, 404, "NotFound"),
    ],
)
def test_what_is_refused_and_how(store: Store, method: str, path: str, body: Any, status: int, reason: str) -> None:
    reply = store.request(method, path, body=body)
    assert reply.status == status, reply.body
    assert reply.body["kind"] == "Status"
    assert reply.body["code"] == status
    assert reason in ("", reply.body["reason"])
    assert store.get("pods", "default", "worker-0") is not None


def test_a_custom_resource_must_carry_its_version_in_an_update(store: Store) -> None:
    path = "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs"
    job = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": {"name": "job"}, "spec": {"a": 1}}
    created = store.request("POST", path, body=job).body
    assert created["metadata"]["generation"] == 1
    assert store.request("PUT", f"{path}/job", body=job).status == 422
    changed = store.request("PUT", f"{path}/job", body={**created, "spec": {"a": 2}, "status": {"x": 1}})
    assert changed.status == 200
    assert changed.body["metadata"]["generation"] == 2
    assert "status" not in changed.body
    status = store.request("PUT", f"{path}/job/status", body={**changed.body, "spec": {}, "status": {"x": 1}})
    assert (status.body["status"], status.body["spec"]) == ({"x": 1}, {"a": 2})
    assert store.request("PUT", f"{path}/job", body={**created, "spec": {"a": 3}}).status == 409


def test_a_kind_without_its_definition_is_not_served() -> None:
    store = Store(Clock(), without={"ascendjobs"})
    reply = store.request("GET", "/apis/mindxdl.gitee.com/v1/ascendjobs")
    assert (reply.status, reply.body["message"]) == (404, "the server could not find the requested resource")
    with pytest.raises(ValueError, match="serves no mindxdl"):
        store.load({"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": {"name": "job"}})
    with pytest.raises(ValueError, match="no such kind in the lab: ascendjob"):
        Store(Clock(), without={"ascendjob"})


@pytest.mark.parametrize(
    ("labels", "fields", "names"),
    [
        ("", "", ["a", "b", "c"]),
        ("app=x", "", ["a", "b"]),
        ("app==x,tier!=back", "", ["a"]),
        ("app in (y, z)", "", ["c"]),
        ("app notin (x),app", "", ["c"]),
        ("tier", "", ["b"]),
        ("!tier", "", ["a", "c"]),
        ("", "metadata.name=b", ["b"]),
        ("app=x", "spec.nodeName!=node-a", ["b"]),
        ("", "status.phase=Pending", ["a", "b", "c"]),
    ],
)
def test_selectors(labels: str, fields: str, names: list[str]) -> None:
    store = Store(Clock())
    for name, of, node in (
        ("a", {"app": "x"}, "node-a"),
        ("b", {"app": "x", "tier": "back"}, ""),
        ("c", {"app": "y"}, ""),
    ):
        body = {"metadata": {"name": name, "labels": of}, "spec": {"containers": [], "nodeName": node}}
        assert store.request("POST", PODS_PATH, body=body).status == 201
    reply = store.request("GET", "/api/v1/pods", params={"labelSelector": labels, "fieldSelector": fields})
    assert [pod["metadata"]["name"] for pod in reply.body["items"]] == names


@pytest.mark.parametrize(
    "params", [{"labelSelector": "a b"}, {"fieldSelector": "spec.image=x"}, {"fieldSelector": "x"}]
)
def test_a_selector_that_cannot_be_understood_is_400(store: Store, params: dict[str, str]) -> None:
    assert store.request("GET", "/api/v1/pods", params=params).status == 400


def test_a_list_carries_the_version_and_typed_items_hide_their_kind(store: Store) -> None:
    pods = store.request("GET", "/api/v1/pods").body
    assert pods["kind"] == "PodList"
    assert pods["metadata"]["resourceVersion"] == str(store.version)
    assert "kind" not in pods["items"][0]
    job = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": {"name": "job"}}
    store.request("POST", "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs", body=job)
    assert store.request("GET", "/apis/mindxdl.gitee.com/v1/ascendjobs").body["items"][0]["kind"] == "AscendJob"


def test_a_bound_pod_ends_gracefully_and_the_kubelet_has_the_last_word(store: Store) -> None:
    uid = meta(store, POD)["uid"]
    reply = store.request("DELETE", POD, body={"gracePeriodSeconds": 20, "preconditions": {"uid": uid}})
    assert reply.status == 200
    assert meta(store, POD)["deletionTimestamp"] == "2026-01-01T01:00:20Z"
    assert meta(store, POD)["deletionGracePeriodSeconds"] == 20
    store.request("DELETE", POD, body={"gracePeriodSeconds": 60})
    assert meta(store, POD)["deletionGracePeriodSeconds"] == 20, "a grace is never lengthened"
    store.request("DELETE", POD, body={"gracePeriodSeconds": 1})
    assert meta(store, POD)["deletionGracePeriodSeconds"] == 1
    assert not store.finish("default", "worker-0", "another")
    assert store.finish("default", "worker-0", uid)
    assert store.request("GET", POD).status == 404
    assert not store.finish("default", "worker-0", uid)


@pytest.mark.parametrize(
    ("prepare", "options", "gone"),
    [
        ("bound", {}, False),
        ("bound", {"gracePeriodSeconds": 0}, True),
        ("bound", {"gracePeriodSeconds": 1}, False),
        ("failed", {"gracePeriodSeconds": 30}, True),
        ("unbound", {"gracePeriodSeconds": 30}, True),
        ("finalizer", {"gracePeriodSeconds": 0}, False),
    ],
)
def test_when_a_deleted_pod_is_gone_at_once(store: Store, prepare: str, options: dict[str, int], gone: bool) -> None:
    path = POD
    match prepare:
        case "failed":
            merge(store, f"{POD}/status", {"status": {"phase": "Failed"}})
        case "finalizer":
            merge(store, POD, {"metadata": {"finalizers": ["example.com/hold"]}})
        case "unbound":
            path = f"{PODS_PATH}/free"
            store.request("POST", PODS_PATH, body={"metadata": {"name": "free"}, "spec": {"containers": []}})
    assert store.request("DELETE", path, body=options).status == 200
    assert (store.request("GET", path).status == 404) == gone


def test_a_finalizer_holds_an_object_until_it_is_taken_off(store: Store) -> None:
    merge(store, POD, {"metadata": {"finalizers": ["example.com/hold"]}})
    store.request("DELETE", POD, body={"gracePeriodSeconds": 0})
    assert "deletionTimestamp" in meta(store, POD)
    merge(store, POD, {"metadata": {"finalizers": None}})
    assert store.request("GET", POD).status == 404


def test_changes_are_told_in_order_and_kept_for_those_who_resume(store: Store) -> None:
    told: list[Change] = []
    start = store.version
    end = store.listen(told.append)
    merge(store, POD, {"metadata": {"labels": {"app": "y"}}})
    store.request("DELETE", POD, body={"gracePeriodSeconds": 0})
    end()
    merge(store, NODE, {"metadata": {"labels": {"rack": "r1"}}})
    assert [(c.type, c.resource.kind) for c in told] == [("MODIFIED", "Pod"), ("DELETED", "Pod")]
    assert store.watch_since(PODS, start) == told
    assert told[-1].object["metadata"]["resourceVersion"] == str(told[-1].resource_version)
    assert told[0].previous is not None
    assert told[0].previous["metadata"]["labels"] == {"app": "x"}


def test_a_watch_from_before_the_history_is_told_to_list_again(store: Store) -> None:
    start = store.version
    merge(store, NODE, {"metadata": {"labels": {"rack": "r1"}}})
    assert len(store.watch_since(BY_PLURAL["nodes"], start)) == 1
    store.compact()
    with pytest.raises(Exception, match="too old resource version") as caught:
        store.watch_since(BY_PLURAL["nodes"], start)
    assert getattr(caught.value, "status", None) == 410
    assert store.watch_since(BY_PLURAL["nodes"], store.version) == []


@pytest.mark.parametrize(
    ("verb", "target", "method", "path", "body"),
    [
        ("delete", "Pod/default/worker-0", "DELETE", POD, {"gracePeriodSeconds": 0}),
        ("patch", "Node/node-a", "PATCH", NODE, {"spec": {"taints": [TAINT]}}),
        ("get", "Node/node-a", "GET", NODE, None),
        ("list", "Pod/default", "GET", PODS_PATH, None),
        ("create", "Pod/default/new", "POST", PODS_PATH, {"metadata": {"name": "new"}, "spec": {"containers": []}}),
        ("update", "Node/node-a", "PUT", NODE, {"metadata": {"name": "node-a"}}),
    ],
)
def test_refusals_are_answered_so_often_and_change_nothing(
    store: Store, verb: str, target: str, method: str, path: str, body: Any
) -> None:
    store.refuse(verb, target, 429, times=2)
    version = store.version
    replies = [
        store.request(method, path, body=body, content_type="application/merge-patch+json").status for _ in range(3)
    ]
    assert replies[:2] == [429, 429]
    assert replies[2] < 300
    store.refuse(verb, target, 500)
    reply = store.request(method, path, body=body)
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert store.version - version <= 1


def test_a_refused_node_still_takes_its_status(store: Store) -> None:
    store.refuse("patch", "Node/node-a", 500)
    merge(store, f"{NODE}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert store.request("PATCH", NODE, body={}, content_type="application/merge-patch+json").status == 500


def test_an_unknown_verb_is_named() -> None:
    with pytest.raises(ValueError, match="no such verb: evict"):
        Store(Clock()).refuse("evict", "Pod/default/x", 429)


def test_garbage_follows_its_owners_and_a_namespace_takes_its_content_along(store: Store) -> None:
    node = meta(store, NODE)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": node["uid"]}
    gone = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "gone"}
    foreign = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "unknown"}
    for name, owners in (("kept", [owner, gone]), ("orphan", [gone]), ("foreign", [foreign])):
        body = {"metadata": {"name": name, "ownerReferences": owners}}
        assert store.request("POST", "/api/v1/namespaces/default/configmaps", body=body).status == 201
    assert store.collect_garbage() == 1
    assert [c["metadata"]["name"] for c in store.objects("configmaps")] == ["foreign", "kept"]
    store.request("DELETE", "/api/v1/namespaces/default")
    refused = store.request("POST", PODS_PATH, body={"metadata": {"name": "late"}, "spec": {}})
    assert refused.status == 403
    store.collect_garbage()
    assert meta(store, "/api/v1/namespaces/default")["deletionTimestamp"]
    assert store.finish("default", "worker-0")
    store.collect_garbage()
    assert store.request("GET", "/api/v1/namespaces/default").status == 404


def test_loaded_objects_stand_as_they_are() -> None:
    store = Store(Clock())
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "mindie", "uid": "u1"}}
    store.load({**pod, "spec": {"nodeName": "node-a"}, "status": {"phase": "Running"}})
    found = store.request("GET", "/api/v1/namespaces/mindie/pods/p").body
    assert (found["metadata"]["uid"], found["status"]) == ("u1", {"phase": "Running"})
    assert store.request("GET", "/api/v1/namespaces/mindie").body["status"]["phase"] == "Active"


@pytest.mark.parametrize(
    ("taints", "status"),
    [
        ([TAINT], 200),
        ([TAINT, {**TAINT, "effect": "PreferNoSchedule"}], 200),
        ([TAINT, {**TAINT, "value": "Manual"}], 422),
        ([{**TAINT, "effect": "Never"}], 422),
        ([{**TAINT, "value": "two words"}], 422),
    ],
)
def test_taints_are_validated(store: Store, taints: list[dict[str, str]], status: int) -> None:
    body = {"spec": {"taints": taints}}
    assert store.request("PATCH", NODE, body=body, content_type="application/merge-patch+json").status == status


def test_an_event_lives_in_the_namespace_of_what_it_is_about(store: Store) -> None:
    def event(namespace: str, involved: dict[str, str]) -> int:
        body = {"metadata": {"generateName": "e."}, "involvedObject": involved}
        return store.request("POST", f"/api/v1/namespaces/{namespace}/events", body=body).status

    assert event("default", {"kind": "Pod", "namespace": "default", "name": "worker-0"}) == 201
    assert event("default", {"kind": "Node", "name": "node-a"}) == 201
    assert event("kube-system", {"kind": "Pod", "namespace": "default", "name": "worker-0"}) == 422


def merge(store: Store, path: str, body: Any) -> None:
    """A merge patch that must succeed."""
    reply = store.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    assert reply.status == 200, reply.body
