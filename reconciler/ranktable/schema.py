"""The global rank table as MindIE Motor reads it: version 1.0 (A2) or 1.2 (A3, with super devices and super pods).

Group 0 lists the coordinators, group 1 the controllers, each further group one instance; where instances are of one
server each (label `grt-server/deploy-server`) they are the servers of group 2. All values are strings.
Source: MindCluster ClusterD (what it generates), MindIE Motor NodeScheduler (what it reads).
"""

from __future__ import annotations

import hashlib

import msgspec

PREFIX = "npuwarden-ranktable-"
"""Of the ConfigMap's name; the jobID of the service follows."""
KEY = "global_ranktable.json"
GENERATION = "npuwarden.io/generation"
DIGEST = "npuwarden.io/sha256"
GROUPS = "npuwarden.io/groups"
"""Annotations of that ConfigMap: how many tables there have been, SHA-256 of the text, `GroupIds` as JSON."""
COORDINATORS, CONTROLLERS, FIRST_INSTANCE = 0, 1, 2


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    device_id: str
    device_ip: str
    rank_id: str
    device_logical_id: str
    super_device_id: str = ""


class Server(msgspec.Struct, frozen=True, omit_defaults=True):
    """server_id: address of the host, its name where it has none. server_ip: address of the pod."""

    server_id: str
    server_ip: str
    device: tuple[Device, ...] = ()
    deploy_server: str = ""
    hardware_type: str = ""


class ServerRef(msgspec.Struct, frozen=True):
    server_id: str


class SuperPod(msgspec.Struct, frozen=True):
    super_pod_id: str
    server_list: tuple[ServerRef, ...]


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    group_id: str
    server_count: str
    server_list: tuple[Server, ...]
    deploy_server: str = ""
    super_pod_list: tuple[SuperPod, ...] = ()


class GlobalTable(msgspec.Struct, frozen=True):
    version: str
    status: str
    server_group_list: tuple[Group, ...]

    @property
    def addresses(self) -> frozenset[str]:
        """Of all pods it lists."""
        return frozenset(server.server_ip for group in self.server_group_list for server in group.server_list)


class GroupIds(msgspec.Struct, frozen=True):
    """ids: group of each AscendJob, for as long as the job exists. next: the first id that no job has ever had.
    listed: the jobs that have stood in a table."""

    ids: dict[str, int] = {}
    next: int = FIRST_INSTANCE
    listed: tuple[str, ...] = ()


_tables = msgspec.json.Decoder(GlobalTable)
_groups = msgspec.json.Decoder(GroupIds)


def is_published(name: str) -> bool:
    """Whether a ConfigMap of this name is a service's global table."""
    return name.startswith(PREFIX)


def group(number: int, servers: tuple[Server, ...], deploy: str = "", pods: tuple[SuperPod, ...] = ()) -> Group:
    return Group(str(number), str(len(servers)), servers, deploy, pods)


def text_of(table: GlobalTable) -> str:
    """Canonical: the same table is the same bytes, whoever builds it."""
    return msgspec.json.encode(table, order="sorted").decode()


def read(text: str) -> GlobalTable | None:
    """None: it is no table."""
    try:
        return _tables.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def digest(text: str) -> str:
    """SHA-256, hexadecimal, as `sha256sum` prints it for the mounted file."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_groups(text: str) -> GroupIds:
    """What cannot be read says nothing: ids are then given anew."""
    try:
        return _groups.decode(text or "{}")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return GroupIds()


def assign(known: GroupIds, jobs: tuple[str, ...]) -> GroupIds:
    """Every job keeps its id; new jobs get the next ones in order of their names; no id is used for a second job."""
    ids = {job: known.ids[job] for job in jobs if job in known.ids}
    free = max([known.next, FIRST_INSTANCE, *(number + 1 for number in known.ids.values())])
    for job in sorted(set(jobs) - ids.keys()):
        ids[job] = free
        free += 1
    return GroupIds(dict(sorted(ids.items())), free, tuple(job for job in known.listed if job in ids))
