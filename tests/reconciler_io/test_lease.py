"""Leadership: one at a time, handed over at once when it ends well, and ended in time when it does not."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.core.calls import Call, Reply
from reconciler.kube.client import KubeClient, connected
from reconciler.kube.lease import Lease
from reconciler.metrics import Metrics
from shared.aio import Ticks, cancel, running
from shared.names import LEASE, NAMESPACE
from tests.cluster.plane import ControlPlane
from tests.reconciler_io.conftest import Kubeconfig
from tests.waiting import eventually

pytestmark = pytest.mark.slow

DURATION_S, REQUEST_TIMEOUT_S = 2.0, 0.5
PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"


class Replica:
    """One contender. `leading_until`: when its leading scope ended."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        namespace: str = NAMESPACE,
        *,
        reluctant: bool = False,
        give_way_s: float = 0,
    ) -> None:
        self.reluctant = reluctant
        self.lease = Lease(
            client,
            name,
            Metrics(),
            Ticks(),
            namespace=namespace,
            succeeds=lambda holder: holder == f"{name} before",
            reluctant=lambda: self.reluctant,
            give_way_s=give_way_s,
            duration_s=DURATION_S,
            renew_s=0.3,
            retry_s=0.1,
            request_timeout_s=REQUEST_TIMEOUT_S,
        )
        self.leads = False
        self.ended_at = 0.0
        self.valid_until_at_end = 0.0

    async def run(self) -> None:
        await self.lease.run(self._lead)

    async def _lead(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads, self.ended_at, self.valid_until_at_end = False, time.monotonic(), self.lease.valid_until


def holder(store: Store) -> str:
    lease = store.get("leases", NAMESPACE, LEASE)
    return lease["spec"]["holderIdentity"] if lease else ""


@pytest.fixture
async def second_client(server: ApiServer, kubeconfig: Kubeconfig) -> AsyncIterator[KubeClient]:
    async with connected(str(kubeconfig(server.url))) as client:
        yield client


async def test_one_leads_and_hands_over_at_once(client: KubeClient, second_client: KubeClient, store: Store) -> None:
    first, second = Replica(client, "first"), Replica(second_client, "second")
    async with running(first.run()) as (task,):
        await eventually("the first leads", lambda: first.leads)
        async with running(second.run()):
            await eventually("the second has looked", lambda: second.lease.current == "first")
            assert not second.leads
            await cancel(task)
            assert not first.leads
            released = time.monotonic()
            await eventually("the second leads", lambda: second.leads, timeout_s=DURATION_S)
            assert time.monotonic() - released < DURATION_S / 2  # it did not wait the lease out
            assert holder(store) == "second"
    assert holder(store) == ""


async def test_a_renewed_lease_is_never_taken(client: KubeClient, second_client: KubeClient) -> None:
    first, second = Replica(client, "first"), Replica(second_client, "second")
    async with running(first.run()):
        await eventually("the first leads", lambda: first.leads)
        began = first.lease.valid_until
        async with running(second.run()):
            await eventually("two durations of renewals", lambda: first.lease.valid_until > began + 2 * DURATION_S)
            assert first.leads
            assert not second.leads


async def test_without_the_api_server_leading_ends_before_the_lease_does(client: KubeClient, server: ApiServer) -> None:
    replica = Replica(client, "first")
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        server.down = True
        await eventually("it stops", lambda: replica.ended_at > 0)
        assert replica.ended_at <= replica.valid_until_at_end - REQUEST_TIMEOUT_S + 0.2
        assert replica.lease.valid_until == 0
        server.down = False
        await eventually("it leads again", lambda: replica.leads)


async def test_an_api_server_that_hangs_ends_leading_in_time_too(client: KubeClient, server: ApiServer) -> None:
    replica = Replica(client, "first")
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        server.latency_s = 30.0
        await eventually("it stops", lambda: replica.ended_at > 0)
        assert replica.ended_at <= replica.valid_until_at_end - REQUEST_TIMEOUT_S + 0.2


async def test_a_dead_holder_is_waited_out_on_the_own_clock(client: KubeClient, store: Store) -> None:
    """Its renewTime lies in the future, as a wrong wall clock writes it: only its standing still counts."""
    store.load(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": NAMESPACE},
            "spec": {
                "holderIdentity": "dead",
                "leaseDurationSeconds": 1,
                "renewTime": "2099-01-01T00:00:00.000000Z",
                "leaseTransitions": 4,
            },
        }
    )
    replica, began = Replica(client, "first"), time.monotonic()
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        assert time.monotonic() - began >= 1.0
        lease = store.get("leases", NAMESPACE, LEASE)
        assert lease is not None
        assert lease["spec"]["leaseTransitions"] == 5


def held_by(name: str) -> dict[str, object]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": NAMESPACE},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 1, "leaseTransitions": 0},
    }


async def test_a_reluctant_replica_leaves_even_its_own_pods_lease_to_the_other(
    client: KubeClient, second_client: KubeClient, store: Store
) -> None:
    store.load(held_by("first before"))
    first, second = Replica(client, "first", reluctant=True, give_way_s=3600), Replica(second_client, "second")
    async with running(first.run()):
        await eventually("the first has looked", lambda: first.lease.current == "first before")
        async with running(second.run()):
            await eventually("the second leads", lambda: second.leads)
            assert not first.leads
        await eventually("the lease is free", lambda: first.lease.current == "")
        assert not first.leads
        first.reluctant = False
        await eventually("it leads once it can", lambda: first.leads)


async def test_a_lease_that_nobody_else_wants_is_taken_by_a_reluctant_replica_too(client: KubeClient) -> None:
    replica, began = Replica(client, "first", reluctant=True, give_way_s=1.0), time.monotonic()
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        assert time.monotonic() - began >= 1.0


async def test_a_lease_that_someone_else_has_taken_ends_leading_and_is_not_released(
    client: KubeClient, store: Store
) -> None:
    replica = Replica(client, "first")
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        lease = store.get("leases", NAMESPACE, LEASE)
        assert lease is not None
        stolen = {**lease["spec"], "holderIdentity": "thief", "leaseDurationSeconds": 60}
        assert store.request("PUT", PATH, body={**lease, "spec": stolen}).ok
        await eventually("it stops", lambda: replica.ended_at > 0)
        await eventually("it waits", lambda: replica.lease.current == "thief")
        assert not replica.leads
    assert holder(store) == "thief"


class Lossy:
    """The server, which takes the second renewal only: the first is never answered."""

    def __init__(self, client: KubeClient) -> None:
        self._client, self.renewals = client, 0

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        self.renewals += call.method == "PUT"
        if call.method == "PUT" and self.renewals == 1:
            await asyncio.sleep(timeout_s)
            return Reply(0, {"reason": "Timeout", "message": "no answer"})
        return await self._client.send(call, timeout_s=timeout_s)


async def test_a_lost_renewal_does_not_cost_the_lead(client: KubeClient) -> None:
    """Renewed as late as it may be, so that one request of full length would use up the time."""
    began = time.monotonic()
    lossy = Lossy(client)
    lease = Lease(lossy, "first", Metrics(), Ticks(), duration_s=9.0, renew_s=3.0, retry_s=0.1, request_timeout_s=3.0)
    ended = asyncio.Event()

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(lease.run(lead)):
        await eventually("the second renewal", lambda: lossy.renewals >= 2 and lease.valid_until > began + 12)
        assert not ended.is_set()


async def test_a_deleted_lease_ends_leading_at_once_and_is_made_anew(client: KubeClient, store: Store) -> None:
    replica = Replica(client, "first")
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        assert store.request("DELETE", PATH).ok
        await eventually("it stops", lambda: replica.ended_at > 0)
        assert replica.ended_at < replica.valid_until_at_end - REQUEST_TIMEOUT_S
        await eventually("it leads again", lambda: replica.leads)
        assert holder(store) == "first"


async def test_a_bystander_who_annotates_the_lease_does_not_end_leading(client: KubeClient, store: Store) -> None:
    replica = Replica(client, "first")
    async with running(replica.run()):
        await eventually("it leads", lambda: replica.leads)
        patch = {"metadata": {"annotations": {"note": "hello"}}}
        assert store.request("PATCH", PATH, body=patch, content_type="application/merge-patch+json").ok
        touched = replica.lease.valid_until
        await eventually("it renews all the same", lambda: replica.lease.valid_until > touched + DURATION_S)
        assert replica.leads
        assert replica.ended_at == 0


async def test_a_leading_scope_that_dies_gives_the_lease_up_and_says_why(client: KubeClient, store: Store) -> None:
    async def lead() -> None:
        raise LookupError("a bug")

    lease = Lease(client, "first", Metrics(), Ticks())
    with pytest.raises(LookupError, match="a bug"):
        await lease.run(lead)
    assert holder(store) == ""


async def test_on_a_real_api_server(control_plane: ControlPlane, namespace: str) -> None:
    async with (
        connected(str(control_plane.kubeconfig)) as one,
        connected(str(control_plane.kubeconfig)) as two,
    ):
        first, second = Replica(one, "first", namespace), Replica(two, "second", namespace)
        async with running(first.run()) as (task,):
            await eventually("the first leads", lambda: first.leads)
            async with running(second.run()):
                renewed = first.lease.valid_until
                await eventually("it renews", lambda: first.lease.valid_until > renewed + DURATION_S)
                assert not second.leads
                await cancel(task)
                await eventually("the second leads", lambda: second.leads)
