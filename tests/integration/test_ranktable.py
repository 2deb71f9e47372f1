"""The global rank table on a real API server: an MS Controller subscribes, an instance dies, two pushes reach it."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
import yaml

from console.lab.cluster.workloads import mindie_job, mindie_manager, rings_config
from reconciler.ranktable.schema import DIGEST, GENERATION, digest
from reconciler.ranktable.wire import ClientInfo, RankTableStream, Status
from tests.cluster.api import Api, ApiError
from tests.integration.daemons import Reconciler
from tests.integration.installation import COLLECTIONS, ROOT
from tests.integration.reports import chip_fault, say
from tests.integration.rig import DECODE, PREFILL, Object, Rig
from tests.process import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(150)
"""Two leaders, the second after the first one's lease: on a loaded machine a minute."""
COMPONENT = ROOT / "deploy" / "components" / "ranktable"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/mindx-dl/endpointslices/npuwarden-ranktable"
HERE = "127.0.0.1"


@pytest.fixture
def component(rig: Rig) -> Iterator[None]:
    """deploy/components/ranktable, taken away again: the other tests run where nobody has installed it."""
    collections = {
        **COLLECTIONS,
        "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/mindx-dl/roles",
        "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/mindx-dl/rolebindings",
        "Service": "/api/v1/namespaces/mindx-dl/services",
        "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/npuwarden-system/networkpolicies",
    }
    ensure(rig.api, "/api/v1/namespaces", {"metadata": {"name": "mindx-dl"}})
    made = []
    for name in ("rbac.yaml", "admission.yaml", "service.yaml"):
        for obj in yaml.safe_load_all((COMPONENT / name).read_text()):
            ensure(rig.api, collections[obj["kind"]], obj)
            made.append(f"{collections[obj['kind']]}/{obj['metadata']['name']}")
    yield
    for path in made:
        rig.api.delete(path)


def ensure(api: Api, collection: str, obj: Object) -> None:
    try:
        api.post(collection, obj)
    except ApiError as exc:
        if exc.reason != "AlreadyExists":
            raise


@contextmanager
def controller(port: int, job_id: str) -> Iterator["queue.Queue[Object]"]:
    """An MS Controller's client: registers, subscribes, and the tables it is given in their order."""
    tables: queue.Queue[Object] = queue.Queue()
    with grpc.insecure_channel(f"{HERE}:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        register = channel.unary_unary("/config.Config/Register", ClientInfo.encode, Status.decode)
        me = ClientInfo(job_id, "controller")
        assert register(me, timeout=20, wait_for_ready=True).code == 0
        subscribe = channel.unary_stream("/config.Config/SubscribeRankTable", ClientInfo.encode, RankTableStream.decode)
        stream = subscribe(me)

        def follow() -> None:
            try:
                for push in stream:
                    tables.put(json.loads(push.rank_table))
            except grpc.RpcError:
                return  # the server has gone, or we have

        reader = threading.Thread(target=follow)
        reader.start()
        try:
            yield tables
        finally:
            stream.cancel()
            reader.join()


def addresses(table: Object, group: int) -> set[str]:
    return {s["server_ip"] for g in table["server_group_list"] if g["group_id"] == str(group) for s in g["server_list"]}


def present(rig: Rig, prefix: str) -> set[str]:
    return {pod["status"].get("podIP", "") for pod in rig.pods(prefix).values()}


def replica(rig: Rig, port: int, number: int, monkeypatch: pytest.MonkeyPatch) -> Reconciler:
    """A reconciler that serves on this port, in a pod of the address 10.9.9.<number>."""
    monkeypatch.setenv("POD_IP", f"10.9.9.{number}")
    made = rig.reconciler(settings={"ranktable": {"listen": f"{HERE}:{port}"}})
    made.leads()
    return made


@pytest.mark.usefixtures("component")
def test_two_pushes_and_a_new_leader(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    job_id = f"svc-{rig.namespace}"
    chosen: dict[str, Any] = {"namespace": rig.namespace, "node_selector": {"test": rig.namespace}, "job_id": job_id}
    first = replica(rig, port, 1, monkeypatch)
    rig.add_nodes(5)
    for app in ("controller", "coordinator"):
        rig.apply(mindie_manager(app, f"mindie-ms-{app}", **chosen))  # type: ignore[arg-type]
    for name, role in ((DECODE, "decode"), (PREFILL, "prefill")):
        job = mindie_job(name, role, **chosen)  # type: ignore[arg-type]
        rig.apply(rings_config(job))
        rig.apply(job)
    old = rig.running(PREFILL, 2)
    path = f"/api/v1/namespaces/{rig.namespace}/configmaps/npuwarden-ranktable-{job_id}"

    def published() -> Object:
        found = rig.api.find(path)
        return json.loads(found["data"]["global_ranktable.json"]) if found else {"server_group_list": []}

    def whole() -> bool:
        return addresses(published(), 3) == present(rig, PREFILL) and addresses(published(), 2) == present(rig, DECODE)

    wait_until("the table of both instances", whole, 30)
    assert [e["addresses"] for e in rig.api.get(SLICE)["endpoints"]] == [["10.9.9.1"]]
    with controller(port, job_id) as tables:
        assert tables.get(timeout=10) == published()
        before = present(rig, PREFILL)

        say(rig, old[f"{PREFILL}-master-0"]["spec"]["nodeName"], chip_fault())
        recovery = rig.recovered()

        assert recovery["status"]["phase"] == "Recovered"
        (said,) = recovery["status"]["conditions"]
        assert (said["type"], said["reason"]) == ("RankTablePublished", "Published")
        after, seen = present(rig, PREFILL), list[Object]()
        while not seen or addresses(seen[-1], 3) != after:
            seen.append(tables.get(timeout=10))
        assert addresses(seen[0], 3) == set(), "without the dead instance first"
        assert all(not (addresses(table, 3) & (before - after)) for table in seen)
        assert all(addresses(table, 2) == present(rig, DECODE) for table in seen)
        metadata, text = rig.api.get(path)["metadata"], rig.api.get(path)["data"]["global_ranktable.json"]
        assert metadata["annotations"][DIGEST] == digest(text)
        assert int(metadata["annotations"][GENERATION]) >= 3
        assert tables.empty(), "and nothing with an old address after it"

    first.kill()
    replica(rig, port, 2, monkeypatch)
    with controller(port, job_id) as tables:
        assert tables.get(timeout=20) == json.loads(text), "the same bytes, from another leader"
    wait_until("the Service leads to it", lambda: rig.api.get(SLICE)["endpoints"][0]["addresses"] == ["10.9.9.2"])
