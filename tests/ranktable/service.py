"""A MindIE service as the API would serve it: two managers of two pods each, and instances with their rank tables."""

from __future__ import annotations

import json
from typing import Any

from reconciler.core import fold
from reconciler.core.actions import PublishTable
from reconciler.core.calls import Call, Outcome, Reply
from reconciler.core.state import State, World
from reconciler.core.steps import steps_for
from tests.core.build import Object, ascend_job, owner_ref
from tests.core.worlds import T0, world_of

JOB_ID = "llm"
CONFIGMAP = f"ml/npuwarden-ranktable-{JOB_ID}"
DEPLOY = {"grt-group/deploy-server": "2"}


def pod(job: Object, name: str, ip: str | None, *, host: str = "10.0.0.1", rank: int = 0, uid: str = "") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid or f"uid-{name}",
            "labels": job["metadata"]["labels"],
            "annotations": {"hccl/rankIndex": str(rank)},
            "ownerReferences": [owner_ref(job)],
        },
        "spec": {"nodeName": f"node-{host}", "containers": [{"name": "ascend"}]},
        "status": {"phase": "Running", "podIP": ip, "hostIP": host},
    }


def manager(kind: str, *ips: str | None, job_id: str = JOB_ID) -> list[Object]:
    """kind: controller | coordinator, one pod for each address."""
    name = f"{job_id}-{kind}"
    job = ascend_job(name, labels={"app": f"mindie-ms-{kind}", "jobID": job_id}, replicas=len(ips))
    return [job, *(pod(job, f"{name}-{n}", ip) for n, ip in enumerate(ips))]


def instance(name: str, *ips: str, job_id: str = JOB_ID) -> list[Object]:
    """The job and its pods, without a rank table."""
    job = ascend_job(name, labels={"app": "mindie-ms-server", "jobID": job_id, **DEPLOY}, replicas=len(ips))
    return [job, *(pod(job, f"{name}-{n}", ip, host=f"10.0.1.{n}", rank=n) for n, ip in enumerate(ips))]


def devices(start: int, count: int, *, a3: bool = False) -> list[Object]:
    found = []
    for n in range(count):
        device: Object = {"device_id": str(n), "device_ip": f"192.168.{start}.{n}", "rank_id": str(start * count + n)}
        found.append(device | ({"super_device_id": str(1000 + n)} if a3 else {}))
    return found


def rings(
    name: str,
    *ips: str,
    status: str = "completed",
    labels: dict[str, str] = DEPLOY,
    a3: bool = False,
    chips: int = 2,
    version: str = "1",
    job_id: str = JOB_ID,
) -> Object:
    """`rings-config-<name>` as ascend-operator has filled it."""
    servers: list[Object] = [
        {"device": devices(n, chips, a3=a3), "server_id": f"s{n}", "host_ip": f"10.0.1.{n}", "container_ip": ip}
        for n, ip in enumerate(ips)
    ]
    hccl: dict[str, Any] = {"status": status, "server_list": servers, "server_count": str(len(ips)), "version": "1.0"}
    if a3:
        members = [{"server_id": server["server_id"]} for server in servers]
        hccl |= {"version": "1.2", "super_pod_list": [{"super_pod_id": "0", "server_list": members}]}
    metadata: Object = {"name": f"rings-config-{name}", "namespace": "ml", "uid": f"uid-rings-{name}"}
    metadata |= {"labels": {"jobID": job_id, "mx-consumer-cim": "true", **labels}, "resourceVersion": version}
    return {"kind": "RingsConfig", "metadata": metadata, "data": {"hccl.json": json.dumps(hccl)}}


def managers(job_id: str = JOB_ID) -> list[Object]:
    return [
        *manager("coordinator", "10.244.0.1", "10.244.0.2", job_id=job_id),
        *manager("controller", "10.244.0.3", job_id=job_id),
    ]


def service(*more: Object) -> World:
    """Prefill of two pods and decode of one, both complete."""
    return world_of(
        [
            *managers(),
            *instance("llm-prefill", "10.244.1.0", "10.244.1.1"),
            *instance("llm-decode", "10.244.2.0"),
            rings("llm-prefill", "10.244.1.0", "10.244.1.1"),
            rings("llm-decode", "10.244.2.0", labels={"grt-group/deploy-server": "1"}),
            *more,
        ]
    )


def recovery_of(job: str, *pods: Object, phase: str = "Deleting") -> Object:
    """An open recovery that is about to delete these pods."""
    ref = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": job, "uid": f"uid-{job}"}
    targets = [{"pod": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods]
    spec: Object = {
        "workload": ref,
        "unit": f"ml/{job}",
        "level": "Job",
        "method": "force",
        "cause": {"kind": "Hardware"},
    }
    spec |= {"controller": ref, "targets": targets}
    metadata = {"name": f"{job}-r", "namespace": "ml", "uid": f"uid-{job}-r"}
    return {"kind": "Recovery", "metadata": metadata, "spec": spec, "status": {"phase": phase, "holder": "me"}}


def write(world: World, action: PublishTable, *replies: Reply) -> tuple[list[Call], Outcome]:
    """Drive the write; without replies the API server takes it and the world is told."""
    step = steps_for(action, "me", T0)
    calls = [next(step)]
    answers = list(replies)
    while True:
        reply = answers.pop(0) if answers else Reply(201, _stored(action))
        try:
            calls.append(step.send(reply))
        except StopIteration as end:
            outcome: Outcome = end.value
            fold.outcome(world, action, outcome, T0)
            return calls, outcome


def _stored(action: PublishTable) -> Object:
    """The ConfigMap as the API server answers it."""
    metadata: Object = {"name": f"npuwarden-ranktable-{action.job_id}", "namespace": action.namespace, "uid": "uid-cm"}
    metadata |= {"resourceVersion": str(int(action.version or "100") + 1), "annotations": dict(action.annotations)}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"global_ranktable.json": action.text}}


def groups(state: State) -> dict[int, list[str]]:
    """Addresses by group of the table that is wanted now; empty when none is."""
    table = next(iter(state.services.values())).table
    found = table.server_group_list if table is not None else ()
    return {int(group.group_id): [server.server_ip for server in group.server_list] for group in found}
