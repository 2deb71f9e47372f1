"""The lab's API server without a socket, a clock or a loop: Kubernetes REST as data.

``request`` answers as the API server of a real cluster does: status codes, Status objects, resource versions,
preconditions, patches, graceful deletion of pods. Bodies it returns are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from console.lab.cluster import patches, rules
from console.lab.cluster.garbage import Deletion, garbage
from console.lab.cluster.objects import Objects
from console.lab.cluster.problems import Problem, already_exists, bad_request, conflict, invalid, not_found
from console.lab.cluster.refusals import Refusals
from console.lab.cluster.resources import NAMESPACES, PODS, Resource, Target, parse_path
from console.lab.cluster.rules import Object
from console.lab.cluster.selectors import selector

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: HTTP status and the body, a Status object where it is an error."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether the request did what it asked for."""
        return self.status < 300


class Store(Objects):
    """The objects of a cluster and the REST requests to them."""

    def __init__(self, now: Callable[[], float], *, without: Collection[str] = (), history: int = 10_000) -> None:
        super().__init__(now, without=without, history=history)
        self._refusals = Refusals()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Reply:
        """Answer one request; never raises for what a client did wrong."""
        params = params or {}
        try:
            target = parse_path(path, self.resources)
            if params.get("dryRun"):
                raise bad_request("the lab has no dry run")
            self._refuse_if_asked(method, target, body)
            return self._dispatch(method, target, params, body, content_type.partition(";")[0].strip())
        except Problem as problem:
            return Reply(problem.status, problem.body())

    def refuse(self, verb: str, target: str, status: int, times: int = 1) -> None:
        """Answer the next ``times`` requests of this verb on ``Kind/namespace/name`` (``Kind/name``) with ``status``.

        Verbs: get, list, create, update, patch, delete; subresources are not affected. The target of a list is ``Kind``
        or ``Kind/namespace``.
        """
        self._refusals.add(verb, target, status, times)

    def finish(self, namespace: str, name: str, uid: str = "") -> bool:
        """The kubelet's last word on a pod: its containers are gone. False when it was not there (any more)."""
        preconditions = {"preconditions": {"uid": uid}} if uid else {}
        path = PODS.path(namespace, name)
        return self.request("DELETE", path, body={"gracePeriodSeconds": 0, **preconditions}).ok

    def collect_garbage(self) -> int:
        """One round of the garbage collector and the namespace controller; how many objects it deleted."""
        deletions = list(garbage({r: list(table.values()) for r, table in self._tables.items()}))
        return sum(self._collect(deletion) for deletion in deletions)

    def _collect(self, deletion: Deletion) -> bool:
        metadata = deletion.object["metadata"]
        if deletion.forget:
            self._remove(deletion.resource, deletion.object)
            return True
        return self._delete(Target(deletion.resource, metadata.get("namespace", ""), metadata["name"]), {}).ok

    def _dispatch(self, method: str, target: Target, params: Mapping[str, str], body: Any, content_type: str) -> Reply:
        match (method, bool(target.name), target.subresource):
            case ("GET", False, ""):
                return self._list(target, params)
            case ("POST", False, ""):
                return self._create(target, body)
            case ("POST", True, "binding") if target.resource is PODS:
                return self._bind(target, body)
            case ("GET", True, "" | "status"):
                return Reply(200, patches.clone(self._existing(target)))
            case ("PUT", True, "" | "status"):
                return self._update(target, body, patch=False)
            case ("PATCH", True, "" | "status"):
                if content_type == patches.APPLY_PATCH:
                    return self._apply(target, params, body)
                return self._patch(target, body, content_type)
            case ("DELETE", True, ""):
                options = body if isinstance(body, dict) and body else _options(params)
                return self._delete(target, options)
            case (_, True, subresource) if subresource not in ("", "status", "binding"):
                raise Problem(404, f"the lab has no subresource {target.resource.plural}/{subresource}")
        raise Problem(405, f"{method} is not supported on this path")

    def _list(self, target: Target, params: Mapping[str, str]) -> Reply:
        resource = target.resource
        matches = selector(resource.kind, params.get("labelSelector", ""), params.get("fieldSelector", ""))
        # A real API server leaves out apiVersion and kind of the items in a list of a built-in kind.
        hidden = ("apiVersion", "kind") if resource.built_in else ()
        items = [
            {key: patches.clone(value) for key, value in obj.items() if key not in hidden}
            for (namespace, _), obj in sorted(self._tables[resource].items())
            if target.namespace in ("", namespace) and matches(obj)
        ]
        head = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
        return Reply(200, {**head, "metadata": {"resourceVersion": str(self.version)}, "items": items})

    def _create(self, target: Target, body: Any) -> Reply:
        resource, obj = target.resource, rules.check_kind(target.resource, body)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            if not target.namespace or metadata.get("namespace", target.namespace) != target.namespace:
                raise bad_request("the namespace of the object does not match the namespace on the request")
            self._check_namespace(target.namespace)
        name = metadata.get("name") or self._generated(metadata.get("generateName", ""))
        obj = rules.created(resource, obj, name, target.namespace, self._uid(), self._timestamp())
        rules.validate(resource, obj)
        if (target.namespace, name) in self._tables[resource]:
            raise already_exists(resource.qualified, name)
        return Reply(201, patches.clone(self._put(resource, obj)))

    def _check_namespace(self, name: str) -> None:
        namespace = self.get("namespaces", "", name)
        if namespace is None:
            raise not_found("namespaces", name)
        if "deletionTimestamp" in namespace["metadata"]:
            raise Problem(403, f"unable to create new content in namespace {name} because it is being terminated")

    def _patch(self, target: Target, patch: Any, content_type: str) -> Reply:
        current = self._existing(target)
        match content_type:
            case patches.JSON_PATCH:
                new = patches.json_patch(current, patch)
            case patches.MERGE_PATCH:
                new = patches.merge_patch(current, patch)
            case patches.STRATEGIC_PATCH if target.resource.built_in:
                new = patches.strategic_patch(current, patch)
            case _:
                raise Problem(415, f"the body of the request was in an unknown format: {content_type}")
        return self._update(target, new, patch=True)

    def _apply(self, target: Target, params: Mapping[str, str], body: Any) -> Reply:
        """Server-side apply without its bookkeeping: what is not there is created, another's value is a conflict."""
        if not params.get("fieldManager"):
            raise invalid("PatchOptions", "", "fieldManager", "Required value: is required for apply patch")
        current = self._tables[target.resource].get((target.namespace, target.name))
        if current is None:
            return self._create(target, body)
        if params.get("force") != "true" and patches.differs(current, body):
            raise conflict(target.resource.qualified, target.name, "Apply failed with 1 conflict")
        return self._update(target, patches.merge_patch(current, body), patch=True)

    def _update(self, target: Target, body: Any, *, patch: bool) -> Reply:
        resource, current = target.resource, self._existing(target)
        status = target.subresource == "status"
        if status and not resource.status:
            raise Problem(404, f"{resource.qualified} have no status subresource")
        new = patches.clone(rules.check_kind(resource, body))
        new = rules.updated(resource, current, new, status=status, patch=patch)
        rules.validate(resource, new)
        if new == current:  # nothing is written, no watch hears of it
            return Reply(200, patches.clone(current))
        gone = "deletionTimestamp" in new["metadata"] and _may_go(new["metadata"])
        return Reply(200, patches.clone(self._remove(resource, new) if gone else self._put(resource, new)))

    def _bind(self, target: Target, body: Any) -> Reply:
        pod, name = self._existing(target), target.name
        node, uid = (body.get("target") or {}).get("name"), (body.get("metadata") or {}).get("uid")
        if not node:
            raise bad_request("a Binding must name its target")
        if uid not in (None, "", pod["metadata"]["uid"]):
            raise conflict("pods/binding", name, f"Precondition failed: UID in precondition: {uid}")
        if "deletionTimestamp" in pod["metadata"]:
            raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if bound := pod["spec"].get("nodeName"):
            raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{bound}"')
        conditions = [c for c in pod["status"].get("conditions", []) if c["type"] != "PodScheduled"]
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": self._timestamp()})
        status = {**pod["status"], "conditions": conditions}
        self._put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})
        return Reply(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})

    def _delete(self, target: Target, options: Object) -> Reply:
        resource, current = target.resource, self._existing(target)
        rules.check_preconditions(resource.qualified, current, options)
        metadata = dict(current["metadata"])
        grace_s = _grace_s(current, options) if resource is PODS else 0
        first = "deletionTimestamp" not in metadata
        if first or grace_s < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = self._timestamp(grace_s)
            metadata["deletionGracePeriodSeconds"] = grace_s
            if first and "generation" in metadata:
                metadata["generation"] += 1
        new = {**current, "metadata": metadata}
        if resource is NAMESPACES:
            new["status"] = {**current.get("status", {}), "phase": "Terminating"}
        elif _may_go(metadata):
            gone = self._remove(resource, new)
            return Reply(200, patches.clone(gone) if resource is PODS else _success(resource, gone))
        return Reply(200, patches.clone(new if new == current else self._put(resource, new)))

    def _refuse_if_asked(self, method: str, target: Target, body: Any) -> None:
        if target.subresource:
            return
        verb = _VERBS.get(method) or ("get" if target.name else "list")
        name = target.name
        if verb == "create" and isinstance(body, dict):
            name = str((body.get("metadata") or {}).get("name", ""))
        spelled = "/".join(part for part in (target.resource.kind, target.namespace, name) if part)
        if problem := self._refusals.take(verb, spelled):
            raise problem

    def _existing(self, target: Target) -> Object:
        obj = self._tables[target.resource].get((target.namespace, target.name))
        if obj is None:
            raise not_found(target.resource.qualified, target.name)
        return obj


def _options(params: Mapping[str, str]) -> Object:
    """DeleteOptions from query parameters, which count only without a body."""
    grace = params.get("gracePeriodSeconds", "")
    if grace and not grace.isdigit():
        raise bad_request(f"gracePeriodSeconds {grace!r} is not a number of seconds")
    return {"gracePeriodSeconds": int(grace)} if grace else {}


def _grace_s(pod: Object, options: Object) -> int:
    """The grace of this deletion: a pod that runs nowhere or has ended goes at once, whatever was asked for."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)


def _may_go(metadata: Object) -> bool:
    return not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")


def _success(resource: Resource, gone: Object) -> Object:
    metadata = gone["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
