"""What the reconciler asks of a whole agent: a look now, peers to ping, the release of a separated chip."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import redis

from console.lab.host import SimHost
from shared.commands import (
    COMMAND_FIELD,
    Body,
    Command,
    DrillStart,
    Peer,
    Peers,
    ReleaseSeparation,
    Reread,
    encode_command,
)
from shared.names import commands_stream
from tests.agent.conftest import MakeAgent, MakeHost
from tests.agent.daemon import NODE, AgentProcess, fault_ids
from tests.redis_server import RedisServer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

HBM, TWICE = "80E18402", "80E18008"


class Asking:
    def __init__(self, server: RedisServer) -> None:
        self._redis: Any = redis.Redis.from_url(server.url)
        self._count = 0

    def __call__(self, body: Body) -> str:
        self._count += 1
        number = f"test/{self._count}"
        command = Command(number, NODE, time.time() + 60, body)
        self._redis.xadd(commands_stream(NODE), {COMMAND_FIELD: encode_command(command)})
        return number


def test_a_look_that_is_asked_for_finds_what_the_next_poll_would(
    host: SimHost, library: Path, make_agent: MakeAgent, redis_server: RedisServer
) -> None:
    agent = make_agent(host, redis_server.url, chips_s=600)
    agent.ready()
    host.occur(3, HBM, event=False)
    Asking(redis_server)(Reread("a pod has Failed"))
    report = agent.until("the fault", lambda report: f"{HBM}@3" in fault_ids(report))
    assert next(fault for fault in report.faults if fault.chip == 3).confirmed


def test_a_port_without_peers_is_found_and_healed_and_peers_survive_a_kill(
    make_host: MakeHost, make_agent: MakeAgent, redis_server: RedisServer
) -> None:
    host = make_host(chips=2)
    agent = make_agent(host, redis_server.url, hccn=True, links_s=4)  # links go before pings, and a tool takes its time
    ready = agent.ready()
    assert all(chip.ip for chip in ready.chips)
    host.unreachable(1, "*")
    Asking(redis_server)(Peers(tuple(Peer(f"n{n}", {0: f"192.0.2.{n}"}) for n in (1, 2, 3))))
    report = agent.until("the silent port", lambda report: "NW-PEERS-SILENT@1" in fault_ids(report), 60)
    assert fault_ids(report) == {"NW-PEERS-SILENT@1"}
    (fault,) = report.faults
    assert (fault.level.value, fault.part) == ("SubHealthFault", "link")
    assert "192.0.2.1 (n1)" in fault.evidence["silent"]
    agent.kill()
    host.unreachable(1)
    agent.start()
    agent.until("it is healed by the peers of before", lambda report: not report.faults, 50)


def metrics(agent: AgentProcess) -> str:
    with urllib.request.urlopen(f"{agent.url}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def released(agent: AgentProcess) -> bool:
    report = agent.report()
    return report is not None and not [fault for fault in report.faults if fault.code == TWICE]


def test_a_released_separation_is_released_once_and_drills_are_refused(
    host: SimHost, library: Path, make_agent: MakeAgent, redis_server: RedisServer, tmp_path: Path
) -> None:
    rules = tmp_path / "faults"
    rules.mkdir()
    rule = {"EventId": [TWICE], "TimeWindow": 86400, "Times": 1, "FaultHandling": "ManuallySeparateNPU"}
    (rules / "faultCustomization.json").write_text(json.dumps({"FaultFrequency": [rule]}))
    agent = make_agent(host, redis_server.url)
    agent.ready()
    host.occur(3, TWICE)
    agent.until("it is separated", lambda r: [f.level.value for f in r.faults] == ["ManuallySeparateNPU"])
    host.recover(3, TWICE)
    ask = Asking(redis_server)
    ask(ReleaseSeparation(4, TWICE, "the wrong chip"))
    ask(DrillStart("d", 99, TWICE, ttl_s=60))
    wait_until("both are refused", lambda: agent.log.count("is refused") == 2)
    assert "no chip 99" in agent.log
    assert not released(agent)
    ask(ReleaseSeparation(3, TWICE, "swapped"))
    before = agent.until("it is released", lambda report: not report.faults).session
    host.occur(3, TWICE)
    agent.until("it is separated again", lambda r: [f.level.value for f in r.faults] == ["ManuallySeparateNPU"])
    host.recover(3, TWICE)
    agent.kill()
    agent.start()
    agent.until("the next process", lambda report: report.session != before, 40)
    repeated = 'npuwarden_agent_commands_total{kind="release-separation",result="repeated"}'
    wait_until("it has read the stream", lambda: repeated in metrics(agent), 40)
    assert not released(agent), "the release was of the separation before"
