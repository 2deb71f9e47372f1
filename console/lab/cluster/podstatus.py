"""What a kubelet writes into a pod: running, failed, restarted, and the chips its device plugin handed out. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from console.lab.cluster.placement import NPU_PREFIX, finished, npus

Object = dict[str, Any]

REAL_CHIPS = "huawei.com/AscendReal"
LOST_EXIT_CODE = 255
"""Of containers that ended with their machine."""
CHIP_CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


def assigned_chips(pod: Object, node: Object, others: Iterable[Object]) -> list[int]:
    """The lowest free chips of the node for this pod; ``others`` are the pods of the node.

    Empty when it wants none, or has them already.
    """
    annotations = pod["metadata"].get("annotations") or {}
    wanted = sum(npus(pod).values())
    if not wanted or REAL_CHIPS in annotations:
        return []
    taken = {chip for other in others if not finished(other) for chip in chips_of(other)}
    return [chip for chip in range(_capacity(node)) if chip not in taken][:wanted]


def chips_of(pod: Object) -> list[int]:
    """Physical ids of the chips a pod holds, from its annotation."""
    text = (pod["metadata"].get("annotations") or {}).get(REAL_CHIPS, "")
    return [int(name.rpartition("-")[2]) for name in text.split(",") if name]


def chip_annotations(pod: Object, node_ip: str, chips: Iterable[int]) -> dict[str, str]:
    """The device plugin's annotations: the chips, and their addresses on the parameter plane for the rank table."""
    resource = next(iter(npus(pod)))
    kind = resource.removeprefix(NPU_PREFIX)
    names = ",".join(f"{kind}-{chip}" for chip in chips)
    third, fourth = node_ip.split(".")[2:]
    devices = [{"device_id": str(chip), "device_ip": f"192.{100 + int(third)}.{fourth}.{10 + chip}"} for chip in chips]
    configuration = {
        "pod_name": pod["metadata"]["name"],
        "server_id": node_ip,
        "host_ip": node_ip,
        "super_pod_id": -1,
        "devices": devices,
    }
    return {resource: names, REAL_CHIPS: names, CHIP_CONFIGURATION: json.dumps(configuration, separators=(",", ":"))}


def running(pod: Object, host_ip: str, pod_ip: str, timestamp: str) -> Object:
    """Status of a pod whose containers have all started and are ready."""
    conditions = [c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
    conditions += [
        {"type": kind, "status": "True", "lastTransitionTime": timestamp}
        for kind in ("Initialized", "ContainersReady", "Ready")
    ]
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": timestamp}},
        }
        for container in pod["spec"]["containers"]
    ]
    addresses = {"hostIP": host_ip, "podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    head = {"phase": "Running", "startTime": timestamp}
    return {**pod["status"], **head, **addresses, "conditions": conditions, "containerStatuses": containers}


def exited(pod: Object, exit_code: int, timestamp: str) -> Object:
    """Status after every container exited: Failed under restartPolicy Never, else started once more."""
    end = {"exitCode": exit_code, "reason": "Error", "finishedAt": timestamp}
    again = pod["spec"].get("restartPolicy", "Always") != "Never"
    containers = []
    for container in pod["status"].get("containerStatuses", []):
        if again:
            more = {
                "restartCount": container["restartCount"] + 1,
                "lastState": {"terminated": end},
                "state": {"running": {"startedAt": timestamp}},
            }
        else:
            more = {"ready": False, "state": {"terminated": end}}
        containers.append({**container, **more})
    if again:
        return {**pod["status"], "containerStatuses": containers}
    return {**unready(pod, timestamp), "phase": "Failed", "containerStatuses": containers}


def rebooted(pod: Object, timestamp: str) -> Object:
    """Status after the machine came back: the containers were lost; they serve again where they are started again."""
    status = exited(pod, LOST_EXIT_CODE, timestamp)
    return status if status.get("phase") == "Failed" else _conditions(status, "True", timestamp)


def unready(pod: Object, timestamp: str) -> Object:
    """Status with Ready turned to False."""
    return _conditions(pod["status"], "False", timestamp)


def _conditions(status: Object, ready: str, timestamp: str) -> Object:
    conditions = [
        {**c, "status": ready, "lastTransitionTime": timestamp} if c["type"] in ("Ready", "ContainersReady") else c
        for c in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}


def _capacity(node: Object) -> int:
    amounts = node["status"].get("capacity") or node["status"].get("allocatable") or {}
    return sum(int(amount) for name, amount in amounts.items() if name.startswith(NPU_PREFIX))
