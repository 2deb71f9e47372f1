"""A process restarted within its pod takes its predecessor's lease at once; nobody else's."""

import asyncio

import pytest

from console.lab.cluster.store import Store
from reconciler.identity import Identity, identity
from reconciler.kube.client import KubeClient
from reconciler.kube.lease import Lease
from reconciler.metrics import Metrics
from shared.aio import Ticks, running
from shared.names import LEASE, NAMESPACE
from tests.waiting import eventually

POD, OTHER = "5b0f9a52-0000-4000-8000-000000000001", "5b0f9a52-0000-4000-8000-000000000002"


def test_a_holder_names_the_pod_where_it_is_known() -> None:
    mine = identity({"POD_UID": POD})
    assert mine.holder.split("_")[1] == POD
    assert identity({}).holder.count("_") == mine.holder.count("_") - 1
    assert identity({}).holder != identity({}).holder


@pytest.mark.parametrize(
    ("me", "holder", "expected"),
    [
        (Identity(f"a_{POD}_1", POD), f"a_{POD}_0", True),
        (Identity(f"a_{POD}_1", POD), f"a_{POD}_1", False),
        (Identity(f"a_{POD}_1", POD), f"a_{OTHER}_0", False),
        (Identity(f"a_{POD}_1", POD), "a_0", False),
        (Identity(f"a_{POD}_1", POD), f"a_{POD}", False),
        (Identity(f"a_{POD}_1", POD), "", False),
        (Identity("a_1"), "a_0", False),
        (Identity("a_1"), f"a_{POD}_0", False),
    ],
)
def test_only_earlier_processes_of_this_pod_are_known_to_have_ended(me: Identity, holder: str, expected: bool) -> None:
    assert me.succeeds(holder) == expected


def contender(client: KubeClient, me: Identity) -> Lease:
    return Lease(client, me.holder, Metrics(), Ticks(), succeeds=me.succeeds, retry_s=0.1)


def holder(store: Store) -> str:
    return str((store.get("leases", NAMESPACE, LEASE) or {})["spec"]["holderIdentity"])


async def forever() -> None:
    await asyncio.Event().wait()


async def test_the_lease_of_a_process_killed_in_this_pod_is_not_waited_out(client: KubeClient, store: Store) -> None:
    """15 s for everybody else, and this test does not wait so long."""
    killed, again = identity({"POD_UID": POD}), identity({"POD_UID": POD})
    spec = {"holderIdentity": killed.holder, "leaseDurationSeconds": 15, "leaseTransitions": 3}
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    store.load({**head, "metadata": {"name": LEASE, "namespace": NAMESPACE}, "spec": spec})
    standby, restarted = contender(client, identity({"POD_UID": OTHER})), contender(client, again)

    async with running(standby.run(forever)):
        await eventually("the standby has looked", lambda: standby.current == killed.holder)
        async with running(restarted.run(forever)):
            await eventually("the pod leads again", lambda: holder(store) == again.holder, timeout_s=5)
            assert not standby.leading
            lease = store.get("leases", NAMESPACE, LEASE)
            assert lease is not None
            assert lease["spec"]["leaseTransitions"] == 4
