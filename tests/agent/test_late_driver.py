"""A driver that is installed, or comes back, while the agent runs."""

import os
import signal
from pathlib import Path

import pytest

from agent.config import Paths
from agent.late_driver import better
from console.lab.host import SimHost
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import fault_ids
from tests.redis_server import RedisServer
from tests.waiting import wait_until

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("having", "there", "expected"),
    [
        ("none", (), None),
        ("none", ("npu-smi",), "npu-smi"),
        ("none", ("libdcmi.so",), "libdcmi.so"),
        ("none", ("npu-smi", "libdcmi.so"), "libdcmi.so"),
        ("npu-smi", ("npu-smi",), None),
        ("npu-smi", ("npu-smi", "libdcmi.so"), "libdcmi.so"),
        ("dcmi", ("npu-smi", "libdcmi.so"), None),
        ("dcmi", (), None),
    ],
)
def test_what_is_better(tmp_path: Path, having: str, there: tuple[str, ...], expected: str | None) -> None:
    for name in there:
        (tmp_path / name).touch(mode=0o755)
    paths = Paths(dcmi=str(tmp_path / "libdcmi.so"), npu_smi=str(tmp_path / "npu-smi"))
    assert better(paths, having) == (None if expected is None else tmp_path / expected)


@slow
def test_an_agent_without_a_driver_is_unknown_until_one_is_installed_and_its_successor_sees_the_chips(
    host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    away = library.with_suffix(".away")
    library.rename(away)
    agent = make_agent(host, redis_server.url, tools=False, dcmi=library)
    first = agent.ready()
    assert [(one.chip, one.probe) for one in first.unknown] == [("node", "driver")], "blind is not healthy"
    away.rename(library)
    wait_until("the agent ends by itself", lambda: not agent.running, timeout_s=30)
    assert agent.code == 0
    agent.start()
    agent.until("its chips", lambda report: len(report.chips) == 8 and not report.unknown, 40)


@slow
def test_a_library_that_is_replaced_costs_events_for_seconds_and_not_for_minutes(
    host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    agent = make_agent(host, redis_server.url)
    agent.ready()
    subscribed = "subscribed to the driver's fault events"
    wait_until("the subscription", lambda: subscribed in agent.log, 30)
    away = library.with_suffix(".away")
    library.rename(away)
    for pid in agent.pids[1:]:
        os.kill(pid, signal.SIGKILL)
    agent.until("a blind node", lambda report: "NW-MONITOR-BLIND@node" in fault_ids(report), 30)
    wait_until("a subscription in vain", lambda: "loading the library answered" in agent.log, 30)
    away.rename(library)
    agent.until("chips that are read", lambda report: not report.unknown and not report.faults, 60)
    wait_until("events again", lambda: agent.log.count(subscribed) == 2, 30)
