"""Children that are stopped and not dead, as a frozen cgroup or a debugger leaves them: nothing waits for them."""

import os
import signal
from pathlib import Path

import pytest

from console.lab.host import SimHost
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import AgentProcess, fault_ids
from tests.redis_server import RedisServer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent) -> AgentProcess:
    agent = make_agent(host, redis_server.url)
    agent.ready()
    wait_until("both children", lambda: child(agent, "dcmi_worker.py") and child(agent, "dcmi_events.py"))
    return agent


def child(agent: AgentProcess, script: str) -> int | None:
    """The child that runs this script."""
    for pid in agent.pids[1:]:
        try:
            if script in Path(f"/proc/{pid}/cmdline").read_text():
                return pid
        except OSError:
            continue
    return None


def stop(agent: AgentProcess, script: str) -> int:
    pid = child(agent, script)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def wait_for_another(agent: AgentProcess, script: str, pid: int) -> None:
    wait_until("it is replaced", lambda: child(agent, script) not in (None, pid), 60)


def test_a_worker_that_is_stopped_is_replaced_and_faults_go_on_being_found(host: SimHost, agent: AgentProcess) -> None:
    open_faults: set[str] = set()
    for phy in (3, 4):
        stopped = stop(agent, "dcmi_worker.py")
        host.occur(phy, "80E18402", event=False)
        open_faults.add(f"80E18402@{phy}")
        agent.until("the fault", lambda report: open_faults <= fault_ids(report), 60)
        wait_for_another(agent, "dcmi_worker.py", stopped)


def test_an_event_child_that_is_stopped_costs_the_speed_alone(host: SimHost, agent: AgentProcess) -> None:
    """That it is replaced is shown in test_events.py, with less patience."""
    wait_until("the subscription", lambda: "subscribed to the driver's fault events" in agent.log)
    stop(agent, "dcmi_events.py")
    host.occur(3, "80E18402")
    agent.until("the fault, by the poll", lambda report: "80E18402@3" in fault_ids(report), 60)
