"""When the leader listens, and what it writes behind the Service."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from reconciler.config import RankTableServer
from reconciler.core.calls import Call, Outcome, Reply
from reconciler.metrics import Metrics
from reconciler.ranktable.endpoint import point_here
from reconciler.ranktable.hub import Hub
from reconciler.ranktable.serving import Serving
from shared.aio import Ticks, running
from tests.waiting import eventually

OURS = {"metadata": {"labels": {"app.kubernetes.io/part-of": "npu-warden"}}}
THEIRS: dict[str, Any] = {"metadata": {}}
MISSING = Reply(404, {"reason": "NotFound"})


def drive(address: str, *replies: Reply) -> tuple[list[Call], Outcome]:
    step, calls, answers = point_here(address, 8899), [], list(replies)
    call = next(step)
    while True:
        calls.append(call)
        try:
            call = step.send(answers.pop(0))
        except StopIteration as end:
            return calls, end.value


def test_the_first_leader_makes_the_slice() -> None:
    calls, outcome = drive("10.1.0.7", Reply(200, OURS), MISSING, Reply(201, {}))
    assert outcome.done
    body = calls[-1].body
    assert (calls[-1].method, body["metadata"]["name"], body["addressType"]) == ("POST", "npuwarden-ranktable", "IPv4")
    assert body["metadata"]["labels"]["kubernetes.io/service-name"] == "clusterd-grpc-svc"
    assert body["endpoints"][0]["addresses"] == ["10.1.0.7"]
    assert body["ports"] == [{"name": "grpc", "port": 8899, "protocol": "TCP"}]


def test_the_next_leader_takes_it_over_by_its_version_and_then_leaves_it_alone() -> None:
    held = {
        "metadata": {"resourceVersion": "5"},
        "endpoints": [{"addresses": ["10.1.0.7"], "conditions": {"ready": True, "serving": True}}],
        "ports": [{"name": "grpc", "port": 8899, "protocol": "TCP", "appProtocol": "x"}],
    }
    calls, outcome = drive("10.1.0.8", Reply(200, OURS), Reply(200, held), Reply(200, {}))
    assert outcome.done
    assert (calls[-1].method, calls[-1].body["metadata"]["resourceVersion"]) == ("PUT", "5")
    calls, outcome = drive("10.1.0.7", Reply(200, OURS), Reply(200, held))
    assert outcome.done
    assert [call.method for call in calls] == ["GET", "GET"]


def test_an_address_of_the_other_family_has_a_slice_of_its_own() -> None:
    calls, _ = drive("fd00::7", Reply(200, OURS), MISSING, Reply(201, {}))
    assert (calls[-1].body["metadata"]["name"], calls[-1].body["addressType"]) == ("npuwarden-ranktable-v6", "IPv6")


def test_clusterds_service_is_left_alone_and_a_missing_one_names_the_remedy() -> None:
    calls, outcome = drive("10.1.0.7", Reply(200, THEIRS))
    assert (len(calls), outcome.reason) == (1, "foreign")
    _, outcome = drive("10.1.0.7", MISSING)
    assert "deploy/components/ranktable" in outcome.message


class Cluster:
    """An API server that has the Service and takes the slice."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        assert timeout_s > 0
        self.methods.append(call.method)
        if call.path.endswith("clusterd-grpc-svc"):
            return Reply(200, OURS)
        return MISSING if call.method == "GET" else Reply(201, {})


async def test_it_listens_while_there_is_something_to_serve() -> None:
    hub, cluster, ticks = Hub(), Cluster(), Ticks()
    until = time.monotonic() + 100
    serving = Serving(RankTableServer("127.0.0.1:0"), hub, cluster, lambda: until, Metrics(), ticks, address="10.1.0.7")
    async with running(serving.run()):
        await asyncio.sleep(0)
        assert serving.port == 0
        hub.take({}, wanted=True)
        await eventually("the slice", lambda: "POST" in cluster.methods)
        assert serving.port > 0
        hub.take({}, wanted=False)
        await eventually("the end of listening", lambda: serving.port == 0)
        assert ticks.late() == []
    assert serving.port == 0


async def test_nothing_is_written_when_the_lease_may_have_passed_on() -> None:
    hub, cluster = Hub(), Cluster()
    hub.take({}, wanted=True)
    serving = Serving(
        RankTableServer("127.0.0.1:0"), hub, cluster, time.monotonic, Metrics(), Ticks(), address="10.1.0.7"
    )
    async with running(serving.run()):
        await eventually("both looks", lambda: len(cluster.methods) >= 2)
    assert set(cluster.methods) == {"GET"}
