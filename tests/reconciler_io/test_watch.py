"""The watch cache: whole after the list, current after every change, and resumed after whatever breaks it."""

import logging
from collections.abc import AsyncIterator

import pytest

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.core.resources import NODE, RECOVERY, RINGS_CONFIG, WATCHED, Resource
from reconciler.core.state import World
from reconciler.kube import watch
from reconciler.kube.client import KubeClient, connected
from reconciler.kube.watch import ResourceWatch
from reconciler.metrics import Metrics
from reconciler.mirror import Mirror
from shared.aio import Ticks, running
from shared.names import NAMESPACE
from tests.cluster.plane import ControlPlane
from tests.conftest import MakeNode
from tests.reconciler_io.conftest import Kubeconfig, node
from tests.waiting import eventually

pytestmark = pytest.mark.slow

ASCEND_JOB = next(r for r in WATCHED if r.kind == "AscendJob")
NODE_PATH = "/api/v1/nodes"


class Cache:
    """One watch, the world it feeds, and what it counts."""

    def __init__(self, client: KubeClient, resource: Resource) -> None:
        self.metrics = Metrics()
        self.mirror = Mirror(World(), self.metrics)
        self.watch = ResourceWatch(client, resource, self.mirror, self.metrics, Ticks())

    @property
    def nodes(self) -> set[str]:
        return set(self.mirror.world.nodes)

    def relists(self) -> float:
        return (
            self.metrics.registry.get_sample_value(
                "npuwarden_reconciler_relists_total", {"kind": self.watch.resource.kind}
            )
            or 0.0
        )


@pytest.fixture
async def cache(client: KubeClient, store: Store) -> AsyncIterator[Cache]:
    """The nodes of a cluster that has one, synced."""
    store.load(node("first"))
    cache = Cache(client, NODE)
    async with running(cache.watch.run()):
        await eventually("the list is in", lambda: cache.watch.synced)
        yield cache


async def test_the_list_then_every_change(cache: Cache, store: Store) -> None:
    assert cache.nodes == {"first"}
    store.load(node("second"))
    await eventually("an addition", lambda: cache.nodes == {"first", "second"})
    store.request(
        "PATCH",
        f"{NODE_PATH}/first",
        body={"metadata": {"labels": {"a": "b"}}},
        content_type="application/merge-patch+json",
    )
    await eventually("a change", lambda: cache.mirror.world.nodes["first"].metadata.labels.get("a") == "b")
    store.request("DELETE", f"{NODE_PATH}/second")
    await eventually("a deletion", lambda: cache.nodes == {"first"})


async def test_of_a_row_with_a_label_only_what_carries_it_comes(client: KubeClient, store: Store) -> None:
    def config_map(name: str, **labels: str) -> None:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        store.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hccl.json": "{}"}})

    config_map("rings-config-a", jobID="j")
    config_map("rings-config-b")
    cache = Cache(client, RINGS_CONFIG)
    async with running(cache.watch.run()):
        await eventually("the list is in", lambda: cache.watch.synced)
        assert set(cache.mirror.world.rank_tables) == {f"{NAMESPACE}/rings-config-a"}
        for name in ("rings-config-c", "deviceinfo-a"):
            config_map(name)
        config_map("rings-config-d", jobID="j")
        await eventually("an addition", lambda: len(cache.mirror.world.rank_tables) == 2)
        assert f"{NAMESPACE}/rings-config-d" in cache.mirror.world.rank_tables
    assert cache.metrics.registry.get_sample_value(
        "npuwarden_reconciler_watch_events_total", {"kind": "RingsConfig"}
    ) == pytest.approx(1)


def test_no_watch_ticks_for_another(client: KubeClient) -> None:
    names = [ResourceWatch(client, row, Mirror(World(), Metrics()), Metrics(), Ticks()).name for row in WATCHED]
    assert len(set(names)) == len(names)


async def test_more_than_one_page_is_one_list(
    client: KubeClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PAGE", 3)
    for i in range(10):
        store.load(node(f"node-{i}"))
    cache = Cache(client, NODE)
    async with running(cache.watch.run()):
        await eventually("all pages", lambda: len(cache.nodes) == 10)
    assert cache.relists() == 1


async def test_a_cut_connection_is_resumed_without_a_new_list(cache: Cache, store: Store, server: ApiServer) -> None:
    server.down = True
    store.load(node("second"))
    store.request("DELETE", f"{NODE_PATH}/first")
    server.down = False
    await eventually("what was missed", lambda: cache.nodes == {"second"})
    assert cache.relists() == 1


async def test_a_version_that_is_too_old_is_listed_anew(cache: Cache, store: Store, server: ApiServer) -> None:
    server.down = True
    store.load(node("second"))
    store.request("DELETE", f"{NODE_PATH}/first")
    store.load(node("third"))
    store.compact()
    server.down = False
    await eventually("a new list, the deleted one gone", lambda: cache.nodes == {"second", "third"})
    assert cache.relists() == 2


async def test_bookmarks_are_signs_of_life(client: KubeClient, store: Store, server: ApiServer) -> None:
    server.bookmark_s = 0.05
    cache = Cache(client, NODE)
    async with running(cache.watch.run()):
        await eventually("the list", lambda: cache.watch.synced)
        store.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
        await eventually("the bookmark's version", lambda: cache.watch._version == str(store.version))
        assert cache.watch.age_s() < 5
        server.down = True
        await eventually("age without them", lambda: cache.watch.age_s() > 0.5)


async def test_a_missing_optional_kind_is_no_error_and_is_found_when_it_appears(
    kubeconfig: Kubeconfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MISSING_RECHECK_S", 0.1)
    caplog.set_level(logging.INFO)
    async with ApiServer(Store(lambda: 0.0, without={"ascendjobs"})) as without:
        port = int(without.url.rpartition(":")[2])
        async with connected(str(kubeconfig(without.url))) as client:
            cache = Cache(client, ASCEND_JOB)
            async with running(cache.watch.run()):
                await eventually("known to be absent", lambda: cache.watch.synced)
                assert cache.watch.absent
                assert "AscendJob" not in cache.mirror.world.kinds
                await without.__aexit__(None, None, None)
                installed = Store(lambda: 0.0)
                installed.load(
                    {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": {"name": "job"}, "spec": {}}
                )
                async with ApiServer(installed, port=port):
                    await eventually("the kind appears", lambda: len(cache.mirror.world.owners) == 1)
                    assert "AscendJob" in cache.mirror.world.kinds
                    assert not cache.watch.absent
    assert caplog.text.count("ascendjobs.mindxdl.gitee.com are not served here") == 1


async def test_without_the_recoveries_nothing_is_decided_and_the_remedy_is_said(
    kubeconfig: Kubeconfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        ApiServer(Store(lambda: 0.0, without={"recoveries"})) as server,
        connected(str(kubeconfig(server.url))) as client,
    ):
        cache = Cache(client, RECOVERY)
        async with running(cache.watch.run()):
            await eventually("it is said", lambda: "kubectl apply -f deploy/crd.yaml" in caplog.text)
            assert not cache.watch.synced


async def test_an_object_that_cannot_be_read_hides_no_other(client: KubeClient, store: Store) -> None:
    store.load(node("good"))
    store.load({**node("bad"), "spec": {"taints": [{"key": 7, "effect": []}]}})
    cache = Cache(client, NODE)
    async with running(cache.watch.run()):
        await eventually("the readable one", lambda: cache.nodes == {"good"})
        store.load(node("later"))
        await eventually("what comes after", lambda: cache.nodes == {"good", "later"})
    bad = cache.metrics.registry.get_sample_value("npuwarden_reconciler_bad_objects_total", {"kind": "Node"})
    assert bad == 1


async def test_a_real_api_server(control_plane: ControlPlane, make_node: MakeNode) -> None:
    name = make_node("a")["metadata"]["name"]
    async with connected(str(control_plane.kubeconfig)) as client:
        cache = Cache(client, NODE)
        async with running(cache.watch.run()):
            await eventually("the list", lambda: name in cache.nodes)
            control_plane.api.merge_patch(f"{NODE_PATH}/{name}", {"metadata": {"labels": {"seen": "yes"}}})
            await eventually("the change", lambda: cache.mirror.world.nodes[name].metadata.labels.get("seen") == "yes")


async def test_a_user_without_rights_is_told_verb_and_resource(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(str(control_plane.kubeconfig_for("stranger"))) as client:
        cache = Cache(client, NODE)
        async with running(cache.watch.run()):
            await eventually("one clear line", lambda: 'cannot list resource "nodes"' in caplog.text)
            assert not cache.watch.synced
