"""The rank table (hccl.json, version 1.0) that ascend-operator writes for one AscendJob. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from console.lab.cluster.operators.ascendjob_objects import RANK_ANNOTATION
from console.lab.cluster.podstatus import CHIP_CONFIGURATION

Object = dict[str, Any]


def table(old: str, pods: Sequence[Object], expected: int) -> str:
    """The table's new text. While a pod or its chips are missing only the status changes: the old servers stay."""
    if not complete(pods, expected):
        found = json.loads(old) if old else {}
        if found.get("status") in (None, "initializing"):
            return old
        return _text({**found, "status": "initializing"})
    servers, rank = [], 0
    for pod in sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"].get(RANK_ANNOTATION, 0))):
        configuration = json.loads(pod["metadata"]["annotations"][CHIP_CONFIGURATION])
        devices = []
        for device in configuration["devices"]:
            devices.append({**device, "rank_id": str(rank)})
            rank += 1
        address = {"server_id": configuration["server_id"], "host_ip": configuration["host_ip"]}
        servers.append({"device": devices, **address, "container_ip": pod["status"]["podIP"]})
    return _text({"status": "completed", "server_list": servers, "server_count": str(len(servers)), "version": "1.0"})


def complete(pods: Sequence[Object], expected: int) -> bool:
    """Whether all pods of the job are there and have their chips."""
    return len(pods) == expected and all(_configured(pod) for pod in pods)


def _configured(pod: Object) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return CHIP_CONFIGURATION in annotations and bool(pod["status"].get("podIP"))


def _text(value: Object) -> str:
    return json.dumps(value, separators=(",", ":"))
