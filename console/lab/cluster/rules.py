"""What the API server does to an object on its way in: validation, defaults, and which fields a write may change.

Only rules that a client can trip over while isolating nodes and restarting pods; sources: the registry strategies and
validation of Kubernetes 1.37.
"""

from __future__ import annotations

import re
from typing import Any

from console.lab.cluster.patches import clone
from console.lab.cluster.problems import Problem, bad_request, conflict, invalid, stale
from console.lab.cluster.resources import Resource

Object = dict[str, Any]

_DNS_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
_QUALIFIED = re.compile(r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIXED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_POD_SPEC_MAY_CHANGE = ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "schedulingGates")
_WITHOUT_GENERATION = {"Node", "Namespace", "ConfigMap", "Event", "Service", "Secret", "Lease"}


def check_kind(resource: Resource, body: Any) -> Object:
    """The body as an object of this kind, or 400. A custom resource must name its kind, built-in ones need not."""
    if not isinstance(body, dict):
        raise bad_request(f"the body of a {resource.kind} must be an object")
    for key, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        found = body.get(key, wanted if resource.built_in else None)
        if found != wanted:
            raise bad_request(f"{key} {found!r} in the data does not match {wanted!r} of the endpoint")
    metadata = body.get("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    return {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def validate(resource: Resource, obj: Object) -> None:
    """Raise 422 for metadata or taints that the API server would refuse."""
    metadata, name = obj["metadata"], str(obj["metadata"].get("name", ""))

    def refuse(field: str, why: str) -> Problem:
        return invalid(resource.qualified, name, field, why)

    if not _DNS_NAME.match(name):
        raise refuse("metadata.name", f"Invalid value: {name!r}: must be a lowercase RFC 1123 subdomain")
    for field in ("labels", "annotations"):
        for key, value in (metadata.get(field) or {}).items():
            if not _QUALIFIED.match(key):
                raise refuse(f"metadata.{field}", f"Invalid value: {key!r}: not a qualified name")
            if not isinstance(value, str) or (field == "labels" and not _LABEL_VALUE.match(value)):
                raise refuse(f"metadata.{field}", f"Invalid value: {value!r} of {key}")
    for reference in metadata.get("ownerReferences") or []:
        if missing := [key for key in ("apiVersion", "kind", "name", "uid") if not reference.get(key)]:
            raise refuse("metadata.ownerReferences", f"{missing[0]} must not be empty")
    if resource.kind == "Node":
        _validate_taints(obj, refuse)
    if resource.kind == "Event":
        involved = (obj.get("involvedObject") or {}).get("namespace", "")
        if metadata["namespace"] not in ([involved] if involved else ["default", "kube-system"]):
            raise refuse("involvedObject.namespace", f"Invalid value: {involved!r}: does not match event.namespace")


def _validate_taints(node: Object, refuse: Any) -> None:
    seen = set()
    for taint in (node.get("spec") or {}).get("taints") or []:
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect")
        if not _QUALIFIED.match(key) or not _LABEL_VALUE.match(value):
            raise refuse("metadata.taints", f"Invalid value: {key}={value}")
        if effect not in _EFFECTS:
            raise refuse("metadata.taints.effect", f"Unsupported value: {effect!r}")
        if (key, effect) in seen:
            raise refuse("metadata.taints", f"Duplicate value: {key}:{effect}")
        seen.add((key, effect))


def created(resource: Resource, body: Object, name: str, namespace: str, uid: str, timestamp: str) -> Object:
    """The stored form of a new object: system metadata set, status reset (a Node keeps what its kubelet registers)."""
    obj: Object = clone(body)
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _FIXED}
    metadata |= {"name": name, "uid": uid, "creationTimestamp": timestamp}
    if namespace:
        metadata["namespace"] = namespace
    if resource.kind not in _WITHOUT_GENERATION:
        metadata["generation"] = 1
    obj["metadata"] = metadata
    match resource.kind:
        case "Node":
            obj.setdefault("spec", {})
            obj.setdefault("status", {})
        case "Namespace":
            obj["spec"] = {"finalizers": ["kubernetes"]}
            obj["status"] = {"phase": "Active"}
        case "Pod":
            defaults = {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "schedulerName": "default-scheduler",
            }
            obj["spec"] = defaults | obj.get("spec", {})
            obj["status"] = {"phase": "Pending"}
        case "CustomResourceDefinition":
            obj["status"] = {"conditions": [{"type": "Established", "status": "True", "reason": "NamesAccepted"}]}
        case _ if resource.status:
            obj.pop("status", None)
    return obj


def check_preconditions(what: str, current: Object, options: Object) -> None:
    """409 unless the preconditions of DeleteOptions hold."""
    metadata, wanted = current["metadata"], options.get("preconditions") or {}
    for key, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) not in (None, metadata[key]):
            raise conflict(
                what,
                metadata["name"],
                f"Precondition failed: {label} in precondition: {wanted[key]}, {label} in object meta: {metadata[key]}",
            )


def updated(resource: Resource, current: Object, new: Object, *, status: bool, patch: bool) -> Object:
    """The stored form of a changed object: what this write may not change is taken from ``current``.

    ``status``: a write to the status subresource; ``patch``: a patch (another UID is then 422 and not 409, and a
    missing resourceVersion is no complaint).
    """
    old, metadata = current["metadata"], dict(new["metadata"])
    name, what = old["name"], resource.qualified
    if metadata.get("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if metadata.get("uid", old["uid"]) != old["uid"]:
        if patch:
            raise invalid(resource.kind, name, "metadata.uid", "Invalid value: field is immutable")
        raise conflict(what, name, f"Precondition failed: UID in precondition: {metadata['uid']}")
    version = metadata.get("resourceVersion") or ""
    if not version and not patch and (not resource.built_in or resource.kind == "Lease"):
        raise invalid(what, name, "metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")
    if version not in ("", old["resourceVersion"]):
        raise stale(what, name)
    if status:
        kept = metadata if resource.built_in else old
        new = {**current, "metadata": kept, "status": new.get("status", {})}
    else:
        new = {**new, "metadata": metadata}
        if resource.status:
            new = {key: value for key, value in new.items() if key != "status"}
            if "status" in current:
                new["status"] = current["status"]
    new["metadata"] = {**new["metadata"], "resourceVersion": old["resourceVersion"]}
    for key in ("name", "namespace", *_FIXED):
        new["metadata"].pop(key, None)
        if key in old:
            new["metadata"][key] = old[key]
    if resource.kind == "Pod" and _pod_spec_core(new) != _pod_spec_core(current):
        raise invalid("Pod", name, "spec", "Forbidden: pod updates may not change fields other than the image")
    if "generation" in old and _desired(new) != _desired(current):
        new["metadata"]["generation"] = old["generation"] + 1
    return new


def _desired(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _pod_spec_core(pod: Object) -> Object:
    spec = {key: value for key, value in pod["spec"].items() if key not in _POD_SPEC_MAY_CHANGE}
    spec["containers"] = [{**container, "image": ""} for container in spec.get("containers", [])]
    return spec
