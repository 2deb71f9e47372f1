"""Two replicas against the real control plane, each behind a proxy of its own, and what the audit log says of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from console.lab import rig_files
from shared.names import LEASE
from tests.chaos.http_proxy import HttpProxy
from tests.chaos.record import Object, Write, audited
from tests.integration.daemons import Reconciler
from tests.integration.installation import ACCOUNT
from tests.integration.rig import POLICY, PREFILL, Rig, uids
from tests.waiting import eventually

AUDITED = ("nodes", "pods", "recoveries", "leases", "configmaps")
LEASE_S = 15.0
HAND_OVER_S = LEASE_S + 7.0
"""The lease, seen and found over by looks a second or so apart, and what a busy machine adds."""


class Pair:
    """`first` leads, `second` waits; two instances run and `broken` is the node of the first one's master.

    names: theirs in the audit log, which all tests of a run share.
    """

    def __init__(self, rig: Rig, ways: tuple[HttpProxy, HttpProxy], replicas: tuple[Reconciler, Reconciler]) -> None:
        self.rig = rig
        self.first_way, self.second_way = ways
        self.names = self.first_way.name, self.second_way.name
        self.first, self.second = replicas
        self.old: dict[str, Object] = {}
        self.decode: dict[str, Object] = {}
        self.broken = ""

    async def furnish(self) -> None:
        self.first.start()
        self.old, self.decode = await asyncio.to_thread(self.rig.mindie_pair)
        self.broken = self.old[f"{PREFILL}-master-0"]["spec"]["nodeName"]
        agent = self.rig.agent(self.broken, start=False)  # here: children die with the thread that starts them
        await asyncio.to_thread(self.first.leads)
        self.second.start()
        await asyncio.to_thread(self.second.wait_for, "ascendjobs: ")
        await asyncio.to_thread(agent.subscribed)

    async def audited(self) -> list[Write]:
        """The writes of both in the API server's order, once all that passed the proxies are there."""
        passed = [w for way in (self.first_way, self.second_way) for w in way.writes if w.plural in AUDITED]
        found: list[Write] = []

        def complete() -> bool:
            found[:] = audited(self.rig.plane.audit_log, frozenset(self.names))
            return len(found) >= len(passed)

        await eventually(f"{len(passed)} writes in the audit log", complete)
        return found

    async def restarted_once(self) -> None:
        """The struck instance has had one restart, its neighbour none."""
        await asyncio.to_thread(self.rig.recovered)
        new = await asyncio.to_thread(self.rig.running, PREFILL, 2)
        assert not set(uids(new).values()) & set(uids(self.old).values())
        ended = {
            entry.object["metadata"]["uid"]
            for entry in self.rig.journal.of("Pod")
            if "deletionTimestamp" in entry.object["metadata"]
        }
        assert ended == set(uids(self.old).values())


@contextlib.asynccontextmanager
async def pair(rig: Rig) -> AsyncIterator[Pair]:
    """Nothing runs yet: `furnish` begins."""
    tls = rig.plane.tls_for(ACCOUNT)
    async with (
        HttpProxy(f"{rig.namespace}-first", rig.plane.url, tls=tls) as first_way,
        HttpProxy(f"{rig.namespace}-second", rig.plane.url, tls=tls) as second_way,
    ):
        replicas = [
            Reconciler(rig.directory, _kubeconfig(rig.directory, way), rig.broker.url, POLICY)
            for way in (first_way, second_way)
        ]
        try:
            yield Pair(rig, (first_way, second_way), (replicas[0], replicas[1]))
        finally:
            for replica in replicas:
                replica.kill()


def _kubeconfig(directory: Path, way: HttpProxy) -> Path:
    path = directory / f"{way.name}.kubeconfig"
    path.write_text(rig_files.kubeconfig(way.url))
    return path


def led(writes: list[Write], replica: str) -> list[Write]:
    """The renewals of a replica that the server took."""
    return [w for w in writes if w.replica == replica and w.plural == "leases" and w.name == LEASE and w.ok]


def acts(writes: list[Write], replica: str) -> list[Write]:
    """What a replica has asked to change in the cluster, taken or refused: all but its lease."""
    return [w for w in writes if w.replica == replica and w.plural not in ("leases", "events")]
