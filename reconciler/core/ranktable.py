"""Whether the rank table of an AscendJob speaks of its present pods. Verified before a recovery counts as done.

ascend-operator writes it into the ConfigMap `rings-config-<job>`, key `hccl.json`, that the user has created with the
job; the pods mount it, and ClusterD makes the table of the whole service of it. `completed` alone proves nothing: while
a pod is missing the operator says `initializing` and leaves the old servers listed, and a ConfigMap that was created
after the pods had got their chips is not written until the operator restarts.
Source: MindCluster ascend-operator and ClusterD (hccl.json version 1.0, labels of the ConfigMap).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from reconciler.core.objects import Meta, Pod, RingsConfig

PREFIX = "rings-config-"
OWNER_KIND = "AscendJob"
CONSUMER_LABEL = "mx-consumer-cim"
DEPLOY_SERVER_LABELS = ("grt-group/deploy-server", "grt-server/deploy-server")
PATIENCE_S = {"stale": 600.0, "empty": 60.0}
"""How long the operator is given from the moment all pods are Ready: to replace an old list, to write a first one."""


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """One chip of a server. rank_id: its rank in the job. super_device_id: on A3 only."""

    device_id: str | int = ""
    device_ip: str = ""
    rank_id: str | int = ""
    super_device_id: str | int = ""


class Server(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pod. Its own address is under one of two names, that of its host may be server_id alone."""

    container_ip: str = ""
    server_ip: str = ""
    server_id: str = ""
    host_ip: str = ""
    hardware_type: str = ""
    device: tuple[Device, ...] | None = None

    @property
    def address(self) -> str:
        return self.container_ip or self.server_ip

    @property
    def host(self) -> str:
        return self.host_ip or self.server_id


class ServerRef(msgspec.Struct, frozen=True):
    server_id: str = ""


class SuperPod(msgspec.Struct, frozen=True):
    """Which servers of the job are in one super pod (version 1.2, A3)."""

    super_pod_id: str | int = ""
    server_list: tuple[ServerRef, ...] | None = None


class RankTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of the ConfigMap.

    status: initializing | completed, as the operator writes it. problem: why the text is no table, "" when it is one.
    """

    metadata: Meta
    status: str = ""
    server_count: str = ""
    servers: tuple[Server, ...] = ()
    super_pods: tuple[SuperPod, ...] = ()
    problem: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of the listed servers, "" for one that has none."""
        return tuple(server.address for server in self.servers)


class _Hccl(msgspec.Struct):
    status: str = ""
    server_count: str | int = ""
    server_list: tuple[Server, ...] | None = None
    super_pod_list: tuple[SuperPod, ...] | None = None


_hccl = msgspec.json.Decoder(_Hccl)


def is_rings_config(name: str) -> bool:
    """Whether a ConfigMap of this name is one of a job's."""
    return name.startswith(PREFIX)


def read(config: RingsConfig) -> RankTable:
    """Keep what is verified and passed on: the annotations repeat the whole text."""
    meta = msgspec.structs.replace(config.metadata, annotations={})
    text = config.data.hccl_json if config.data is not None else ""
    if not text:
        return RankTable(meta)
    try:
        hccl = _hccl.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        return RankTable(meta, problem=str(exc))
    return RankTable(meta, hccl.status, str(hccl.server_count), hccl.server_list or (), hccl.super_pod_list or ())


@dataclass(frozen=True, slots=True)
class Check:
    """complete: it lists exactly the present pods. stale: it does not yet. empty: nobody has ever written it."""

    verdict: Literal["complete", "stale", "empty"]
    message: str


def verify(table: RankTable, pods: Iterable[Pod]) -> Check:
    """Compare a table with the pods of its job, all of which are Ready."""
    name = f"ConfigMap {table.metadata.name}"
    present = [pod.status.pod_ip or f"(none yet) of {pod.metadata.name}" for pod in pods]
    if table.problem:
        return Check("empty", f"{name}: hccl.json is no rank table: {table.problem}")
    if not table.addresses and table.status != "completed":
        late = "the operator does not write one that was created after the pods had got their chips until it restarts"
        return Check("empty", f"{name}: hccl.json lists no server: {late}")
    if table.status != "completed":
        return Check("stale", f"{name}: hccl.json is {table.status or 'without status'}, its list is the old one")
    if old := sorted({*table.addresses} - {*present}):
        return Check("stale", f"{name}: hccl.json lists {_few(old)}, no present pod's address")
    if missing := sorted({*present} - {*table.addresses}):
        return Check("stale", f"{name}: hccl.json does not list {_few(missing)}")
    # Pods on the host's network share its address, and each is listed all the same.
    if table.server_count != str(len(present)) or Counter(table.addresses) != Counter(present):
        counted = f"server_count {table.server_count or '(none)'}, {len(table.addresses)} listed"
        return Check("stale", f"{name}: hccl.json: {counted}, {len(present)} pods")
    return Check("complete", f"{name} lists all {len(present)} pods")


def unlabelled(table: RankTable) -> str | None:
    """What keeps ClusterD from using a right table, for a person: its labels. None when nothing does."""
    labels, name = table.metadata.labels, f"ConfigMap {table.metadata.name}"
    if labels.get(CONSUMER_LABEL) != "true":
        return f'{name} lacks the label {CONSUMER_LABEL}: "true": ClusterD does not see it'
    found = [label for label in DEPLOY_SERVER_LABELS if label in labels]
    if len(found) != 1:
        stands = "carries both labels" if found else "carries neither of the labels"
        keys = " and ".join(DEPLOY_SERVER_LABELS)
        return f"{name} {stands} {keys}: ClusterD makes no table for any instance of the service until it has one"
    return None


def unseen(job: str) -> str:
    """Of a job without a table, for a person: only those with the label are watched, so nobody knows which it is."""
    name = f"{PREFIX}{job}"
    return (
        f"no ConfigMap {name} with the label jobID is there: if the job's pods find each other by one, give it that "
        "label (any value), and the next recovery waits for its list; without one there is nothing to verify"
    )


def _few(addresses: list[str]) -> str:
    shown = ", ".join(address or "an empty address" for address in addresses[:3])
    return f"{shown} and {len(addresses) - 3} more" if len(addresses) > 3 else shown
