"""What the lab's API server says about itself: groups, versions and kinds, as clients discover them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from console.lab.cluster.resources import CORE, Resource

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
VERSION = {"major": "1", "minor": "37", "gitVersion": "v1.37.2+lab", "platform": "linux/amd64"}


def document(path: str, served: Iterable[Resource]) -> dict[str, Any] | None:
    """The answer to a discovery path, or None where it is none (or names a group that is not served)."""
    resources = tuple(served)
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", version]:
            return _resource_list(version, [r for r in resources if (r.group, r.version) == (CORE, version)])
        case ["apis"]:
            groups = sorted({r.group for r in resources if r.group})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(g, resources) for g in groups]}
        case ["apis", group] if any(r.group == group for r in resources):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, resources)}
        case ["apis", group, version]:
            found = [r for r in resources if (r.group, r.version) == (group, version)]
            return _resource_list(f"{group}/{version}", found)
    return None


def _group(name: str, resources: Iterable[Resource]) -> dict[str, Any]:
    versions = sorted({r.version for r in resources if r.group == name})
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(group_version: str, resources: list[Resource]) -> dict[str, Any] | None:
    if not resources:
        return None
    entries: list[dict[str, Any]] = []
    for resource in resources:
        head = {"singularName": resource.kind.lower(), "namespaced": resource.namespaced, "kind": resource.kind}
        entries.append({"name": resource.plural, **head, "verbs": VERBS})
        if resource.status:
            entries.append({"name": f"{resource.plural}/status", **head, "verbs": ["get", "patch", "update"]})
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}
