"""When the leader listens, and what it writes behind the Service."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from reconciler.config import RankTableServer
from reconciler.core.calls import Call, Outcome, Reply, Step
from reconciler.metrics import Metrics
from reconciler.ranktable.endpoint import lead_nowhere, point_here
from reconciler.ranktable.hub import Hub
from reconciler.ranktable.serving import Serving
from shared.aio import Ticks, running
from tests.waiting import eventually

LABELS = {"app.kubernetes.io/part-of": "npu-warden"}
OURS: dict[str, Any] = {"metadata": {"uid": "uid-service", "labels": LABELS}, "spec": {"ports": [{"port": 8899}]}}
THEIRS: dict[str, Any] = {"metadata": {"uid": "uid-service"}, "spec": {"selector": {"app": "clusterd"}}}
TAKEN_OVER = {**OURS, "spec": THEIRS["spec"]}
OWNER = {"apiVersion": "v1", "kind": "Service", "name": "clusterd-grpc-svc", "uid": "uid-service"}
HELD: dict[str, Any] = {
    "metadata": {"resourceVersion": "5", "ownerReferences": [OWNER]},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.0.7"], "conditions": {"ready": True, "serving": True}}],
    "ports": [{"name": "grpc", "port": 8899, "protocol": "TCP", "appProtocol": "x"}],
}
MISSING = Reply(404, {"reason": "NotFound"})


def drive(address: str, *replies: Reply) -> tuple[list[Call], Outcome]:
    return through(point_here(address, 8899), *replies)


def through(step: Step, *replies: Reply) -> tuple[list[Call], Outcome]:
    calls, answers = [], list(replies)
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
    assert body["metadata"]["ownerReferences"] == [OWNER], "it goes with the Service"
    assert body["endpoints"][0]["addresses"] == ["10.1.0.7"]
    assert body["ports"] == [{"name": "grpc", "port": 8899, "protocol": "TCP"}]


def test_the_next_leader_takes_it_over_by_its_version_and_then_leaves_it_alone() -> None:
    calls, outcome = drive("10.1.0.8", Reply(200, OURS), Reply(200, HELD), Reply(200, {}))
    assert outcome.done
    assert (calls[-1].method, calls[-1].body["metadata"]["resourceVersion"]) == ("PUT", "5")
    calls, outcome = drive("10.1.0.7", Reply(200, OURS), Reply(200, HELD))
    assert outcome.done
    assert [call.method for call in calls] == ["GET", "GET"]


def test_a_slice_of_a_service_that_has_been_made_anew_gets_its_owner() -> None:
    anew = {**OURS, "metadata": {**OURS["metadata"], "uid": "uid-new"}}
    calls, _ = drive("10.1.0.7", Reply(200, anew), Reply(200, HELD), Reply(200, {}))
    assert calls[-1].method == "PUT"
    assert [owner["uid"] for owner in calls[-1].body["metadata"]["ownerReferences"]] == ["uid-new"]


def test_an_address_of_the_other_family_has_a_slice_of_its_own() -> None:
    calls, _ = drive("fd00::7", Reply(200, OURS), MISSING, Reply(201, {}))
    assert (calls[-1].body["metadata"]["name"], calls[-1].body["addressType"]) == ("npuwarden-ranktable-v6", "IPv6")


@pytest.mark.parametrize("service", [THEIRS, TAKEN_OVER], ids=["its own", "a selector over ours"])
def test_behind_clusterds_service_no_address_of_ours_is_left(service: dict[str, Any]) -> None:
    calls, outcome = drive("10.1.0.7", Reply(200, service), Reply(200, HELD), Reply(200, {}), MISSING)
    assert outcome.reason == "foreign"
    (put,) = [call for call in calls if call.method != "GET"]
    assert (put.method, put.path.rpartition("/")[2]) == ("PUT", "npuwarden-ranktable")
    assert put.body == HELD | {"endpoints": []}
    calls, outcome = drive("10.1.0.7", Reply(200, service), Reply(200, HELD | {"endpoints": []}), MISSING)
    assert outcome.reason == "foreign"
    assert {call.method for call in calls} == {"GET"}


def test_a_missing_service_names_the_remedy() -> None:
    _, outcome = drive("10.1.0.7", MISSING)
    assert "deploy/components/ranktable" in outcome.message


def test_nothing_to_take_back_is_done_and_what_could_not_be_is_not() -> None:
    forbidden = Reply(403, {"reason": "Forbidden"})
    assert through(lead_nowhere(), MISSING, MISSING)[1].done
    assert not through(lead_nowhere(), Reply(0))[1].done
    _, outcome = through(lead_nowhere(), Reply(200, HELD), forbidden)
    assert not outcome.done
    assert "deploy/components/ranktable" in outcome.message


class Cluster:
    """An API server that has the Service and keeps the slice."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.slice: dict[str, Any] | None = None

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        assert timeout_s > 0
        self.methods.append(call.method)
        if call.path.endswith("clusterd-grpc-svc"):
            return Reply(200, OURS)
        if call.method in ("POST", "PUT"):
            self.slice = {**call.body, "metadata": {**call.body["metadata"], "resourceVersion": "5"}}
            return Reply(201, self.slice)
        here = self.slice is not None and not call.path.endswith("-v6")
        return Reply(200, self.slice or {}) if here else MISSING

    def leads_to(self) -> list[str]:
        return [address for one in (self.slice or {}).get("endpoints", ()) for address in one["addresses"]]


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
        await eventually("nobody is led here any more", lambda: cluster.leads_to() == [])
        assert ticks.late() == []
    assert serving.port == 0


async def test_a_leader_with_nothing_to_serve_takes_back_what_the_one_before_wrote() -> None:
    hub, cluster = Hub(), Cluster()
    cluster.slice = HELD
    until = time.monotonic() + 100
    settings = RankTableServer("127.0.0.1:0")
    serving = Serving(settings, hub, cluster, lambda: until, Metrics(), Ticks(), address="10.1.0.8")
    async with running(serving.run()):
        await asyncio.sleep(0.05)
        assert cluster.methods == [], "nothing was decided yet"
        hub.take({}, wanted=False)
        await eventually("nobody is led to a leader that is gone", lambda: cluster.leads_to() == [])


async def test_where_the_component_is_not_installed_nothing_is_asked() -> None:
    hub, cluster, ticks = Hub(), Cluster(), Ticks()
    serving = Serving(RankTableServer("127.0.0.1:0"), hub, cluster, time.monotonic, Metrics(), ticks, address="")
    async with running(serving.run()):
        hub.take({}, wanted=False)
        await eventually("the look", lambda: not hub.changed.is_set())
    assert cluster.methods == []


async def test_nothing_is_written_when_the_lease_may_have_passed_on() -> None:
    hub, cluster = Hub(), Cluster()
    hub.take({}, wanted=True)
    serving = Serving(
        RankTableServer("127.0.0.1:0"), hub, cluster, time.monotonic, Metrics(), Ticks(), address="10.1.0.7"
    )
    async with running(serving.run()):
        await eventually("both looks", lambda: len(cluster.methods) >= 2)
    assert set(cluster.methods) == {"GET"}


async def test_a_table_that_nobody_has_subscribed_to_is_counted_while_it_is_served() -> None:
    hub, metrics = Hub(), Metrics()
    until = time.monotonic() + 100
    settings = RankTableServer("127.0.0.1:0")
    serving = Serving(settings, hub, Cluster(), lambda: until, metrics, Ticks(), address="10.1.0.7")

    def unheard() -> float | None:
        return metrics.registry.get_sample_value("npuwarden_reconciler_ranktable_unheard")

    async with running(serving.run()):
        hub.take({"llm": "{}", "other": "{}"}, wanted=True)
        await eventually("nobody listens", lambda: unheard() == 2)
        subscription = hub.subscribe("llm")
        hub.changed.set()  # else it is seen at the next round
        await eventually("one listens", lambda: unheard() == 1)
        hub.leave(subscription)
        hub.changed.set()
        await eventually("it is gone", lambda: unheard() == 2)
    assert unheard() == 0, "whoever does not lead knows nothing of it"
