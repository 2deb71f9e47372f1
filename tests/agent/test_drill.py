"""Drills on the node itself: a whole agent, its socket, the command; and a killed agent that goes on with its drill."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import redis

from console.lab.children import NPU_WARDEN
from console.lab.host import SimHost
from shared.commands import COMMAND_FIELD, Command, DrillStart, encode_command
from shared.names import AGENT_SOCKET, commands_stream
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import NODE, AgentProcess, fault_ids
from tests.redis_server import RedisServer

pytestmark = pytest.mark.slow

HBM = "80E18402"


def local(agent: AgentProcess, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [*NPU_WARDEN, "drill", "local", *words, "--socket", str(agent.state_dir / AGENT_SOCKET)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False)


def test_a_local_drill_needs_no_cluster(
    host: SimHost, library: Path, make_agent: MakeAgent, redis_server: RedisServer
) -> None:
    agent = make_agent(host, redis_server.url)
    agent.ready()
    assert (agent.state_dir / AGENT_SOCKET).stat().st_mode & 0o777 == 0o600
    done = local(agent, "chip-fault", "--chip", "3")
    assert done.returncode == 0, done.stderr + agent.log[-2000:]
    assert "the agent has the fault after" in done.stdout
    assert "its fault is gone" in done.stdout
    assert f"{HBM}@3 raised" in agent.log
    assert f"{HBM}@3 cleared" in agent.log
    missing = local(agent, "chip-fault", "--chip", "99")
    assert missing.returncode == 2
    assert "no chip 99; the physical ids of this node are 0, 1, 2" in missing.stderr
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{agent.url}/v1/drill", timeout=5)
    agent.terminate()
    assert not (agent.state_dir / AGENT_SOCKET).exists()
    away = local(agent, "chip-fault")
    assert away.returncode == 3
    assert "does the agent run on this node?" in away.stderr


def test_a_killed_agent_goes_on_with_its_drill_and_ends_it_in_time(
    host: SimHost, library: Path, make_agent: MakeAgent, redis_server: RedisServer
) -> None:
    agent = make_agent(host, redis_server.url)
    agent.ready()
    door: Any = redis.Redis.from_url(redis_server.url)
    order = Command("drill/d/start", NODE, time.time() + 40, DrillStart("d", 3, HBM, ttl_s=25, effect="real"))
    door.xadd(commands_stream(NODE), {COMMAND_FIELD: encode_command(order)})
    before = agent.until("the drill", lambda report: fault_ids(report) == {f"{HBM}@3"})
    door.close()
    (fault,) = before.faults
    assert (fault.origin, fault.evidence["drill"], fault.evidence["effect"]) == ("drill", "d", "real")
    assert before.drill is not None
    until = before.drill.until
    agent.kill()
    agent.start()
    after = agent.until("the next process shows it", lambda r: r.session != before.session and r.faults, 22)
    assert (after.faults[0].origin, after.drill) == ("drill", before.drill)
    host.occur(5, HBM)
    agent.until("the real fault beside it", lambda report: f"{HBM}@5" in fault_ids(report))
    last = agent.until("its end", lambda report: report.drill is None, 40)
    assert {fault.id: fault.origin for fault in last.faults} == {f"{HBM}@5": "probe"}
    assert last.at == pytest.approx(until, abs=3)
