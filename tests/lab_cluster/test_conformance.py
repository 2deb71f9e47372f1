"""One set of checks of what the API server answers, run against the lab and against a real control plane.

Whatever a test double gets wrong here would let code pass in the lab that fails in a cluster.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from console.lab.cluster import crds
from console.lab.cluster.client import Access, ApiError, Client, WatchEvent
from console.lab.cluster.patches import APPLY_PATCH, STRATEGIC_PATCH
from console.lab.cluster.resources import ASCENDJOBS, BY_PLURAL, CONFIGMAPS, CRDS, NAMESPACES, NODES, PODS, Resource
from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from tests.cluster.plane import ControlPlane

Object = dict[str, Any]

EVENTS, LEASES = BY_PLURAL["events"], BY_PLURAL["leases"]
TAINT = {"key": "npuwarden.io/fault", "value": "SeparateNPU", "effect": "NoSchedule"}
BOUND_TIME_S = 10


async def refusal(call: Any) -> tuple[int, str]:
    """Status and reason of a call that must be refused."""
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value.status, caught.value.reason


class Conformance:
    """The checks. Subclasses say which API server."""

    @pytest.fixture
    async def namespace(self, api: Client) -> str:
        name = f"conformance-{uuid.uuid4().hex[:8]}"
        await api.create(NAMESPACES, {"metadata": {"name": name}})
        return name

    @pytest.fixture
    async def node(self, api: Client, namespace: str) -> AsyncIterator[str]:
        """A node without a kubelet."""
        await api.create(NODES, {"metadata": {"name": namespace}})
        yield namespace
        await api.delete(NODES, "", namespace)

    @pytest.fixture
    async def pod(self, api: Client, namespace: str) -> Object:
        """A pod that no scheduler touches."""
        return await api.create(PODS, unscheduled(namespace, "worker-0"))

    @pytest.fixture
    async def bound(self, api: Client, pod: Object, node: str) -> Object:
        await bind(api, pod, node)
        return await api.get(PODS, pod["metadata"]["namespace"], "worker-0")

    @pytest.fixture
    async def jobs(self, api: Client) -> Resource:
        """The kind AscendJob, defined."""
        if await refusal_or_none(api.create(CRDS, crds.definition(ASCENDJOBS))) not in (None, "AlreadyExists"):
            pytest.fail("the definition of AscendJob was refused")
        for _ in range(200):
            if await refusal_or_none(api.list_all(ASCENDJOBS)) is None:
                return ASCENDJOBS
            await asyncio.sleep(0.05)
        pytest.fail("AscendJob is defined but not served after 10 s")

    async def test_create_get_and_a_taken_name(self, api: Client, pod: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        found = await api.get(PODS, namespace, "worker-0")
        assert found["metadata"]["uid"] == pod["metadata"]["uid"]
        assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
        assert (found["status"]["phase"], found["metadata"]["generation"]) == ("Pending", 1)
        assert await refusal(api.create(PODS, unscheduled(namespace, "worker-0"))) == (409, "AlreadyExists")
        assert await refusal(api.get(PODS, namespace, "nobody")) == (404, "NotFound")

    async def test_a_namespace_that_is_not_there(self, api: Client) -> None:
        assert await refusal(api.create(PODS, unscheduled("nowhere-at-all", "p"))) == (404, "NotFound")

    async def test_an_api_that_is_not_served(self, api: Client) -> None:
        core, foreign = Resource("", "v1", "things", "Thing"), Resource("example.com", "v1", "things", "Thing")
        assert await refusal(api.list_all(core)) == (404, "NotFound")
        assert await refusal(api.list_all(foreign)) == (404, ""), "no Status object, plain text"

    async def test_lists_carry_a_version_and_built_in_items_hide_their_kind(self, api: Client, pod: Object) -> None:
        listed = await api.request("GET", PODS.path(pod["metadata"]["namespace"]))
        assert listed["kind"] == "PodList"
        assert int(listed["metadata"]["resourceVersion"]) >= int(pod["metadata"]["resourceVersion"])
        assert [("kind" in item, item["metadata"]["name"]) for item in listed["items"]] == [(False, "worker-0")]

    async def test_items_of_a_custom_kind_show_it(self, api: Client, namespace: str, jobs: Resource) -> None:
        await api.create(jobs, {"metadata": {"name": "job", "namespace": namespace}, "spec": {}})
        listed = await api.request("GET", jobs.path(namespace))
        assert [item["kind"] for item in listed["items"]] == ["AscendJob"]

    async def test_taints_by_json_patch_with_a_test(self, api: Client, node: str) -> None:
        current = await api.get(NODES, "", node)
        taints = current["spec"].get("taints") or []
        seen = current["metadata"]["resourceVersion"]
        change: Object = {"op": "add", "path": "/spec/taints", "value": [*taints, TAINT]}
        wrong = [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}, change]
        assert await refusal(api.json_patch(NODES, "", node, wrong)) == (422, "Invalid")
        stands = await api.get(NODES, "", node)
        assert TAINT not in (stands["spec"].get("taints") or [])
        right = [{"op": "test", "path": "/metadata/uid", "value": current["metadata"]["uid"]}, change]
        patched = await api.json_patch(NODES, "", node, right)
        assert [(t["key"], t["effect"]) for t in patched["spec"]["taints"] if t["key"] == TAINT["key"]] == [
            (TAINT["key"], "NoSchedule")
        ]
        assert int(patched["metadata"]["resourceVersion"]) > int(seen)

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "remove", "path": "/metadata/labels/nobody"},
            {"op": "add", "path": "/spec/nothing/below", "value": 1},
            {"op": "test", "path": "/spec/unschedulable", "value": True},
        ],
        ids=lambda operation: operation["op"],
    )
    async def test_a_json_patch_that_does_not_apply(self, api: Client, node: str, operation: Object) -> None:
        assert await refusal(api.json_patch(NODES, "", node, [operation])) == (422, "Invalid")

    async def test_a_json_patch_replaces_a_missing_member_too(self, api: Client, node: str) -> None:
        operation = {"op": "replace", "path": "/metadata/labels", "value": {"seen": "yes"}}
        assert (await api.json_patch(NODES, "", node, [operation]))["metadata"]["labels"] == {"seen": "yes"}

    async def test_a_json_patch_test_takes_a_missing_member_for_null(self, api: Client, node: str) -> None:
        operations: list[Object] = [
            {"op": "test", "path": "/spec/unschedulable", "value": None},
            {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}},
        ]
        patched = await api.json_patch(NODES, "", node, operations)
        assert patched["metadata"]["labels"]["seen"] == "yes"

    async def test_a_merge_patch_with_a_version_is_conditional(self, api: Client, namespace: str) -> None:
        def patch(version: str, rack: str) -> Object:
            return {"metadata": {"resourceVersion": version, "annotations": {"rack": rack}}}

        first = await api.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": namespace}})
        seen = first["metadata"]["resourceVersion"]
        second = await api.merge(CONFIGMAPS, namespace, "c", patch(seen, "r1"))
        assert second["metadata"]["annotations"]["rack"] == "r1"
        assert await refusal(api.merge(CONFIGMAPS, namespace, "c", patch(seen, "r2"))) == (409, "Conflict")
        removed = await api.merge(CONFIGMAPS, namespace, "c", {"metadata": {"annotations": {"rack": None}}})
        assert "rack" not in (removed["metadata"].get("annotations") or {})

    async def test_a_write_without_a_change_is_no_write(self, api: Client, namespace: str) -> None:
        body = {"metadata": {"name": "c", "namespace": namespace}, "data": {"a": "1"}}
        before = await api.create(CONFIGMAPS, body)
        after = await api.merge(CONFIGMAPS, namespace, "c", {"data": {"a": "1"}})
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    async def test_an_apply_creates_what_is_not_there_and_leaves_anothers_values(
        self, api: Client, namespace: str
    ) -> None:
        async def apply(data: Object, manager: str) -> Object:
            path = CONFIGMAPS.path(namespace, "ledger")
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ledger"}, "data": data}
            return await api.request("PATCH", f"{path}?fieldManager={manager}", body, APPLY_PATCH)

        made = await apply({"jobs": "{}"}, "first")
        assert (made["kind"], made["data"]) == ("ConfigMap", {"jobs": "{}"})
        assert (await apply({"jobs": "{}", "ours": "[]"}, "second"))["data"] == {"jobs": "{}", "ours": "[]"}
        assert await refusal(apply({"jobs": "other"}, "third")) == (409, "Conflict")
        assert await refusal(apply({}, "")) == (422, "Invalid")
        assert (await api.get(CONFIGMAPS, namespace, "ledger"))["data"] == {"jobs": "{}", "ours": "[]"}

    async def test_a_strategic_patch_merges_conditions_but_not_taints(self, api: Client, node: str) -> None:
        async def patch(body: Object, subresource: str = "") -> Object:
            return await api.request("PATCH", NODES.path("", node, subresource), body, STRATEGIC_PATCH)

        for kind in ("npuwarden.io/NPUHealthy", "example.com/Other"):
            condition = {"type": kind, "status": "True", "reason": "Ok", "message": ""}
            node_now = await patch({"status": {"conditions": [condition]}}, "status")
        kinds = {c["type"] for c in node_now["status"]["conditions"]}
        assert {"npuwarden.io/NPUHealthy", "example.com/Other"} <= kinds
        await patch({"spec": {"taints": [TAINT]}})
        replaced = await patch({"spec": {"taints": [{**TAINT, "key": "example.com/else"}]}})
        assert [t["key"] for t in replaced["spec"]["taints"]] == ["example.com/else"]

    @pytest.mark.parametrize(
        "patch",
        [
            {"spec": {"taints": [TAINT, {**TAINT, "value": "Manual"}]}},
            {"spec": {"taints": [{**TAINT, "effect": "Never"}]}},
            {"spec": {"taints": [{**TAINT, "value": "two words"}]}},
            {"metadata": {"labels": {"a": "two words"}}},
            {"metadata": {"labels": {"a": "x" * 64}}},
            {"metadata": {"annotations": {"a b": "x"}}},
            {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}},
        ],
        ids=["same key and effect", "effect", "taint value", "label", "long label", "annotation key", "uid"],
    )
    async def test_what_validation_refuses(self, api: Client, node: str, patch: Object) -> None:
        assert await refusal(api.merge(NODES, "", node, patch)) == (422, "Invalid")

    async def test_replace_needs_the_current_version(self, api: Client, namespace: str) -> None:
        lease = {"metadata": {"name": "l", "namespace": namespace}, "spec": {"holderIdentity": "a"}}
        created = await api.create(LEASES, lease)
        path = LEASES.path(namespace, "l")
        taken = await api.request("PUT", path, {**created, "spec": {"holderIdentity": "b"}})
        assert taken["spec"]["holderIdentity"] == "b"
        assert await refusal(api.request("PUT", path, {**created, "spec": {"holderIdentity": "c"}})) == (
            409,
            "Conflict",
        )
        assert (await refusal(api.request("PUT", path, {**lease, "kind": "Lease", "apiVersion": LEASES.api_version})))[
            0
        ] == 422
        other = {**taken, "metadata": {**taken["metadata"], "uid": "00000000-0000-4000-8000-000000000000"}}
        assert await refusal(api.request("PUT", path, other)) == (409, "Conflict")

    async def test_delete_with_the_wrong_uid_is_a_conflict(self, api: Client, pod: Object) -> None:
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        assert await refusal(api.delete(PODS, namespace, "worker-0", uid=str(uuid.uuid4()))) == (409, "Conflict")
        gone = await api.delete(PODS, namespace, "worker-0", uid=uid, grace_s=0)
        assert (gone["kind"], gone["metadata"]["uid"]) == ("Pod", uid)
        assert await refusal(api.get(PODS, namespace, "worker-0")) == (404, "NotFound")
        assert await refusal(api.delete(PODS, namespace, "worker-0", uid=uid)) == (404, "NotFound")

    async def test_a_pod_that_is_not_bound_is_gone_at_once(self, api: Client, pod: Object) -> None:
        await api.delete(PODS, pod["metadata"]["namespace"], "worker-0", grace_s=30)
        assert await refusal(api.get(PODS, pod["metadata"]["namespace"], "worker-0")) == (404, "NotFound")

    async def test_a_bound_pod_waits_for_its_kubelet(self, api: Client, bound: Object) -> None:
        namespace = bound["metadata"]["namespace"]
        assert bound["spec"]["nodeName"] == namespace
        answer = await api.delete(PODS, namespace, "worker-0", grace_s=30)
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
        assert answer["metadata"]["deletionTimestamp"] > bound["metadata"]["creationTimestamp"]
        longer = await api.delete(PODS, namespace, "worker-0", grace_s=60)
        assert longer["metadata"]["deletionGracePeriodSeconds"] == 30
        shorter = await api.delete(PODS, namespace, "worker-0", grace_s=1)
        assert shorter["metadata"]["deletionGracePeriodSeconds"] == 1
        assert await refusal(api.create(PODS, unscheduled(namespace, "worker-0"))) == (409, "AlreadyExists")
        await api.delete(PODS, namespace, "worker-0", grace_s=0)
        assert await refusal(api.get(PODS, namespace, "worker-0")) == (404, "NotFound")

    async def test_the_default_grace_is_the_pods_own(self, api: Client, bound: Object) -> None:
        answer = await api.delete(PODS, bound["metadata"]["namespace"], "worker-0")
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
        await api.delete(PODS, bound["metadata"]["namespace"], "worker-0", grace_s=0)

    async def test_a_pod_that_has_failed_is_gone_at_once(self, api: Client, bound: Object) -> None:
        namespace = bound["metadata"]["namespace"]
        await api.merge(PODS, namespace, "worker-0", {"status": {"phase": "Failed"}}, subresource="status")
        await api.delete(PODS, namespace, "worker-0", grace_s=30)
        assert await refusal(api.get(PODS, namespace, "worker-0")) == (404, "NotFound")

    async def test_a_bound_pod_is_not_bound_again(self, api: Client, bound: Object) -> None:
        assert await refusal(bind(api, bound, "another")) == (409, "Conflict")
        patch = {"spec": {"nodeName": "another"}}
        assert await refusal(api.merge(PODS, bound["metadata"]["namespace"], "worker-0", patch)) == (422, "Invalid")

    async def test_a_finalizer_holds_the_object(self, api: Client, namespace: str) -> None:
        head = {"name": "c", "namespace": namespace, "finalizers": ["example.com/hold"]}
        await api.create(CONFIGMAPS, {"metadata": head})
        await api.delete(CONFIGMAPS, namespace, "c")
        held = await api.get(CONFIGMAPS, namespace, "c")
        assert "deletionTimestamp" in held["metadata"]
        await api.merge(CONFIGMAPS, namespace, "c", {"metadata": {"finalizers": None}})
        assert await refusal(api.get(CONFIGMAPS, namespace, "c")) == (404, "NotFound")

    async def test_a_deletion_is_answered_with_a_status(self, api: Client, namespace: str) -> None:
        created = await api.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": namespace}})
        answer = await api.delete(CONFIGMAPS, namespace, "c")
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        assert answer["details"]["uid"] == created["metadata"]["uid"]

    async def test_status_is_a_world_of_its_own(self, api: Client, namespace: str, jobs: Resource) -> None:
        head = {"apiVersion": jobs.api_version, "kind": jobs.kind, "metadata": {"name": "job", "namespace": namespace}}
        created = await api.create(jobs, {**head, "spec": {"a": 1}, "status": {"phase": "mine"}})
        assert "status" not in created
        assert created["metadata"]["generation"] == 1
        path = jobs.path(namespace, "job")
        assert (await refusal(api.request("PUT", path, {**head, "spec": {"a": 2}})))[0] == 422
        changed = await api.request("PUT", path, {**created, "spec": {"a": 2}, "status": {"phase": "mine"}})
        assert (changed["metadata"]["generation"], "status" in changed) == (2, False)
        stated = await api.merge(
            jobs, namespace, "job", {"spec": {"a": 3}, "status": {"phase": "Running"}}, subresource="status"
        )
        assert (stated["spec"], stated["status"]) == ({"a": 2}, {"phase": "Running"})
        assert stated["metadata"]["generation"] == 2

    async def test_custom_kinds_take_no_strategic_patch(self, api: Client, namespace: str, jobs: Resource) -> None:
        await api.create(jobs, {"metadata": {"name": "job", "namespace": namespace}})
        call = api.request("PATCH", jobs.path(namespace, "job"), {"spec": {}}, STRATEGIC_PATCH)
        assert (await refusal(call))[0] == 415

    async def test_a_watch_tells_every_change_in_order(self, api: Client, namespace: str) -> None:
        _, version = await api.list_all(CONFIGMAPS, namespace)
        body = {"metadata": {"name": "c", "namespace": namespace}, "data": {"a": "1"}}
        await api.create(CONFIGMAPS, body)
        await api.merge(CONFIGMAPS, namespace, "c", {"data": {"a": "2"}})
        await api.delete(CONFIGMAPS, namespace, "c")
        seen: list[WatchEvent] = []
        async with asyncio.timeout(BOUND_TIME_S):
            async for event in api.watch(CONFIGMAPS, version, namespace):
                if event.type == "BOOKMARK" or event.object["metadata"]["name"] != "c":
                    continue
                seen.append(event)
                if event.type == "DELETED":
                    break
        assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
        versions = [int(event.object["metadata"]["resourceVersion"]) for event in seen]
        assert versions == sorted(set(versions))
        assert versions[0] > int(version)
        assert seen[0].object["kind"] == "ConfigMap"

    async def test_a_watch_with_a_selector_sees_objects_come_and_go(self, api: Client, namespace: str) -> None:
        head = {"name": "c", "namespace": namespace, "labels": {"app": "x"}}
        created = await api.create(CONFIGMAPS, {"metadata": head})
        for value in ("y", "x"):
            await api.merge(CONFIGMAPS, namespace, "c", {"metadata": {"labels": {"app": value}}})
        await api.delete(CONFIGMAPS, namespace, "c")
        seen: list[str] = []
        version = created["metadata"]["resourceVersion"]
        async with asyncio.timeout(BOUND_TIME_S):
            async for event in api.watch(CONFIGMAPS, version, namespace, labels="app=x"):
                seen.append(event.type)
                if seen.count("DELETED") == 2:
                    break
        assert [kind for kind in seen if kind != "BOOKMARK"] == ["DELETED", "ADDED", "DELETED"]

    async def test_a_watch_from_long_ago_must_list_again(self, api: Client, jobs: Resource) -> None:
        self.forget()
        first = anext(api.watch(jobs, "1"))
        assert await refusal(asyncio.wait_for(first, BOUND_TIME_S)) == (410, "Expired")

    def forget(self) -> None:
        """Make the history of AscendJobs short; that of a definition made just now is."""

    async def test_selectors_of_a_list(self, api: Client, bound: Object) -> None:
        namespace = bound["metadata"]["namespace"]
        await api.create(PODS, unscheduled(namespace, "free"))
        path = PODS.path(namespace)

        async def names(query: str) -> list[str]:
            return [pod["metadata"]["name"] for pod in (await api.request("GET", f"{path}?{query}"))["items"]]

        assert await names(f"fieldSelector=spec.nodeName%3D{namespace}") == ["worker-0"]
        assert await names("fieldSelector=metadata.name%3Dfree") == ["free"]
        assert await names("labelSelector=app%3Dlab,name+in+(free)") == ["free"]
        assert (await refusal(api.request("GET", f"{path}?fieldSelector=spec.image%3Dx")))[0] == 400

    async def test_events_live_where_their_object_does(self, api: Client, namespace: str) -> None:
        async def event(where: str, involved: Object) -> Object:
            head = {"generateName": "conformance.", "namespace": where}
            return await api.create(EVENTS, {"metadata": head, "involvedObject": involved, "reason": "Test"})

        pod = {"kind": "Pod", "namespace": namespace, "name": "p"}
        node = {"kind": "Node", "name": "n"}
        assert (await event(namespace, pod))["metadata"]["name"].startswith("conformance.")
        await event("default", node)
        assert await refusal(event("default", pod)) == (422, "Invalid")
        assert await refusal(event(namespace, node)) == (422, "Invalid")

    async def test_a_namespace_that_ends_takes_nothing_new(self, api: Client, namespace: str) -> None:
        head = {"name": "c", "namespace": namespace, "finalizers": ["example.com/hold"]}
        await api.create(CONFIGMAPS, {"metadata": head})
        await api.delete(NAMESPACES, "", namespace)
        ending = await api.get(NAMESPACES, "", namespace)
        assert ending["status"]["phase"] == "Terminating"
        late = api.create(CONFIGMAPS, {"metadata": {"name": "late", "namespace": namespace}})
        assert await refusal(late) == (403, "Forbidden")
        await api.merge(CONFIGMAPS, namespace, "c", {"metadata": {"finalizers": None}})


class TestLab(Conformance):
    @pytest.fixture
    async def api(self) -> AsyncIterator[Client]:
        store = Store(lambda: 1_767_229_200.0)
        async with ApiServer(store) as server, Client(Access(server.url)) as client:
            self.store = store
            yield client

    def forget(self) -> None:
        self.store.compact()


class TestControlPlane(Conformance):
    @pytest.fixture
    async def api(self, control_plane: ControlPlane) -> AsyncIterator[Client]:
        async with Client(Access(control_plane.url, control_plane.token, control_plane.tls)) as client:
            yield client


def unscheduled(namespace: str, name: str) -> Object:
    """A pod of a scheduler that does not exist."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "lab", "name": name}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "ascend", "image": "none"}]},
    }


async def bind(api: Client, pod: Object, node: str) -> None:
    """What a scheduler does."""
    metadata = pod["metadata"]
    head = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}}
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    await api.request("POST", PODS.path(metadata["namespace"], metadata["name"], "binding"), {**head, **target})


async def refusal_or_none(call: Any) -> str | None:
    """The reason of a refusal, or None."""
    try:
        await call
    except ApiError as error:
        return error.reason
    return None
