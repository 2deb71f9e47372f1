"""The servers of one complete instance: from its rank table, else from what the device plugin or the agents say.

ascend-operator fills `rings-config-<job>`. A ConfigMap that was created after the pods had got their chips stays empty
until the operator restarts; then the device plugin's annotation on each pod has the same facts, and where that is
missing too, the agents' reports have the chips of A2 (of A3 nobody but the device plugin names the super pod).
Source: MindCluster ascend-operator (hccl.json) and device plugin (the pods' annotation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from reconciler.core.objects import Pod
from reconciler.core.ranktable import RankTable, verify
from reconciler.ranktable.schema import Device, Server, ServerRef, SuperPod

if TYPE_CHECKING:
    from reconciler.core.state import Heard

CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
RANK = "hccl/rankIndex"


@dataclass(frozen=True, slots=True)
class Instance:
    servers: tuple[Server, ...]
    super_pods: tuple[SuperPod, ...] = ()


class _Chip(msgspec.Struct):
    device_id: str | int
    device_ip: str = ""
    super_device_id: str | int = ""


class _Configuration(msgspec.Struct):
    """Of one pod. super_pod_id: -1 where there are no super pods."""

    devices: list[_Chip]
    server_id: str = ""
    host_ip: str = ""
    super_pod_id: int = -1


_configurations = msgspec.json.Decoder(_Configuration)


def instance_of(pods: Sequence[Pod], size: int, table: RankTable | None, heard: Mapping[str, Heard]) -> Instance | None:
    """None while it is not complete.

    pods: those that are there and not ending. size: how many the whole has, 0 = not known: then the table alone counts.
    """
    if not pods or any(not pod.status.pod_ip or pod.status.phase in ("Failed", "Succeeded") for pod in pods):
        return None
    configured = {str(pod.status.pod_ip): _configuration(pod) for pod in pods}
    if table is not None and verify(table, pods).verdict == "complete":
        return _of_table(table) if _agrees(table, configured) else None
    if len(pods) != size:
        return None
    # No table of these pods: the device plugin and the agents know the chips themselves.
    known = [(pod, configured[str(pod.status.pod_ip)] or _reported(pod, heard)) for pod in sorted(pods, key=_rank)]
    complete = [(pod, configuration) for pod, configuration in known if configuration is not None]
    return _of_pods(complete) if len(complete) == size else None


def _of_table(table: RankTable) -> Instance:
    hosts = {server.server_id: server.host for server in table.servers}
    servers = tuple(
        Server(
            server_id=server.host,
            server_ip=server.address,
            hardware_type=server.hardware_type,
            device=tuple(
                Device(str(d.device_id), d.device_ip, str(d.rank_id), str(number), str(d.super_device_id))
                for number, d in enumerate(server.device or ())
            ),
        )
        for server in table.servers
    )
    super_pods = tuple(
        SuperPod(
            str(pod.super_pod_id),
            tuple(ServerRef(hosts.get(ref.server_id, ref.server_id)) for ref in pod.server_list or ()),
        )
        for pod in table.super_pods
    )
    return Instance(servers, super_pods)


def _of_pods(known: Sequence[tuple[Pod, _Configuration]]) -> Instance:
    servers: list[Server] = []
    super_pods: dict[str, list[ServerRef]] = {}
    rank = 0
    for pod, configuration in known:
        devices = tuple(
            Device(str(d.device_id), d.device_ip, str(rank + number), str(number), str(d.super_device_id))
            for number, d in enumerate(configuration.devices)
        )
        rank += len(devices)
        host = configuration.host_ip or configuration.server_id or pod.status.host_ip or ""
        servers.append(Server(server_id=host, server_ip=str(pod.status.pod_ip), device=devices))
        if configuration.super_pod_id >= 0:
            refs = super_pods.setdefault(str(configuration.super_pod_id), [])
            if ServerRef(host) not in refs:
                refs.append(ServerRef(host))
    return Instance(tuple(servers), tuple(SuperPod(key, tuple(refs)) for key, refs in super_pods.items()))


def _agrees(table: RankTable, configured: Mapping[str, _Configuration | None]) -> bool:
    """Whether each pod has the chips that the table gives to its address: a new pod can get the old one's address."""
    for server in table.servers:
        configuration = configured.get(server.address)
        listed = {(str(device.device_id), device.device_ip) for device in server.device or ()}
        if configuration is not None and listed != {(str(d.device_id), d.device_ip) for d in configuration.devices}:
            return False
    return True


def _configuration(pod: Pod) -> _Configuration | None:
    try:
        found = _configurations.decode(pod.metadata.annotations.get(CONFIGURATION, ""))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if found.devices else None


def _reported(pod: Pod, heard: Mapping[str, Heard]) -> _Configuration | None:
    """What the node's agent says of the chips that the pod holds; None unless it knows the address of each."""
    report = heard[pod.node].report if pod.node is not None and pod.node in heard else None
    held = [chip for chip in report.chips if pod.metadata.uid in chip.pods] if report is not None else []
    if not held or len(held) != pod.npus or any(chip.ip is None or chip.sdid is not None for chip in held):
        return None
    held.sort(key=lambda chip: chip.phy)
    return _Configuration([_Chip(chip.phy, chip.ip or "") for chip in held], host_ip=pod.status.host_ip or "")


def _rank(pod: Pod) -> tuple[int, str]:
    text = pod.metadata.annotations.get(RANK, "")
    return (int(text) if text.isdecimal() else 0, pod.metadata.name)
