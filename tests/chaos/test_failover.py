"""Two replicas on a real API server, by its audit log: frozen beyond the lease, cut off, deaf, with a wrong clock."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.http_proxy import Weather
from tests.chaos.record import Write
from tests.chaos.replicas import HAND_OVER_S, LEASE_S, Pair, acts, led, pair
from tests.integration.rig import HBM, Rig
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.redis, pytest.mark.timeout(240)]

HARMLESS = (404, 409, 422)
"""Gone, another UID or version, a JSON patch whose test failed."""
IN_FLIGHT = {"the taint": ("PATCH", "nodes"), "the claim": ("PATCH", "recoveries"), "a delete": ("DELETE", "pods")}


async def second_acts(pair: Pair) -> None:
    await eventually("the second leads", lambda: "leads now" in pair.second.said, HAND_OVER_S + 20)
    await pair.restarted_once()


def after(writes: list[Write], one: Write) -> list[Write]:
    return writes[writes.index(one) + 1 :]


def hand_over(writes: list[Write], replicas: Pair) -> tuple[Write, Write]:
    """The last renewal of the first replica, and the write by which the second took the lease."""
    first, second = replicas.names
    taken = led(writes, second)[0]
    return [w for w in led(writes, first) if w.at < taken.at][-1], taken


@pytest.mark.parametrize("what", IN_FLIGHT)
async def test_of_a_leader_frozen_beyond_its_lease_one_request_lands_and_harms_nothing(rig: Rig, what: str) -> None:
    method, plural = IN_FLIGHT[what]
    async with pair(rig) as replicas:
        await replicas.furnish()
        first, way = replicas.first, replicas.first_way
        way.hold(method, f"/{plural}/", f"/{rig.namespace}")
        rig.host(replicas.broken).occur(3, HBM)
        await eventually("a request under way", way.held.is_set, 40)
        os.kill(first.pid, signal.SIGSTOP)
        await second_acts(replicas)

        landed = len(way.writes)
        way.let_go()
        await eventually("it lands", lambda: len(way.writes) > landed)
        first.signal(signal.SIGCONT)
        await eventually("the first stands back", lambda: "stops leading" in first.said)

        writes = await replicas.audited()
        last, taken = hand_over(writes, replicas)
        assert taken.at - last.at <= HAND_OVER_S
        assert taken.at - last.at >= LEASE_S - 1
        late = acts(after(writes, taken), replicas.names[0])
        assert len(late) == 1
        assert late[0].status in HARMLESS
        await replicas.restarted_once()
        assert rig.taint(replicas.broken)


@pytest.mark.parametrize("weather", [Weather(cut=True), Weather(lose_share=1.0)], ids=["cut off", "deaf"])
async def test_of_two_replicas_one_acts_when_the_leader_alone_loses_the_api_server(rig: Rig, weather: Weather) -> None:
    """Cut off, it hears and says nothing; deaf, what it says arrives and no answer comes back."""
    async with pair(rig) as replicas:
        await replicas.furnish()
        replicas.first_way.weather = weather
        replicas.first_way.cut_connections()
        rig.host(replicas.broken).occur(3, HBM)
        await eventually("the first stops", lambda: "stops leading" in replicas.first.said, LEASE_S + 5)
        stopped_at = time.time()
        await second_acts(replicas)
        replicas.first_way.weather = Weather()

        writes = await replicas.audited()
        _, taken = hand_over(writes, replicas)
        assert stopped_at < taken.at, "the second was told before the first had stopped"
        assert acts(after(writes, taken), replicas.names[0]) == []
        await eventually("the first sees the cluster again", lambda: replicas.first.get("/livez"))
        assert led(after(await replicas.audited(), taken), replicas.names[0]) == []


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
async def test_a_wrong_wall_clock_neither_takes_the_lease_nor_breaks_an_episode(
    rig: Rig, ahead_s: int, wrong_clock: Path
) -> None:
    """The leader's clock is an hour off; its lease is respected, and the other one finishes what it began."""
    async with pair(rig) as replicas:
        first = replicas.first
        first.argv[3:3] = [f"LD_PRELOAD={wrong_clock}", f"NPUWARDEN_TEST_SKEW_S={ahead_s}"]
        await replicas.furnish()
        renewals = len(led(await replicas.audited(), replicas.names[0]))
        await eventually(
            "three renewals",
            lambda: len([w for w in replicas.first_way.writes if w.plural == "leases"]) > renewals + 3,
            60,
        )
        assert led(await replicas.audited(), replicas.names[1]) == []

        replicas.first_way.hold("DELETE", "/pods/", f"/{rig.namespace}")
        rig.host(replicas.broken).occur(3, HBM)
        await eventually("a delete under way", replicas.first_way.held.is_set, 40)
        first.kill_hard()
        await second_acts(replicas)
        rig.host(replicas.broken).recover(3, HBM)
        await eventually("the node is given back", lambda: rig.taint(replicas.broken) is None, 40)
        writes = await replicas.audited()
        last, taken = hand_over(writes, replicas)
        assert taken.at - last.at <= HAND_OVER_S
        assert acts(after(writes, taken), replicas.names[0]) == []
