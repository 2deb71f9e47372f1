"""The daemon as a whole: a real process on a simulated host, its reports in a real Redis."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from agent.sensors.kubelet import CHECKPOINT
from console.lab.host import SimHost
from shared.model import FaultLevel, NodeReport
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import NODE, AgentProcess, fault_ids
from tests.redis_server import RedisServer
from tests.waiting import wait_until

HBM = "80E01801"
QUICK_S = 20
"""Of the 30 s that the kubelet gives a pod; a machine under load takes its part."""


@pytest.fixture
def agent(host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent) -> AgentProcess:
    """On eight healthy chips, with the library and events, subscribed."""
    made = make_agent(host, redis_server.url)
    made.ready()
    wait_until("the subscription", lambda: "subscribed to the driver's fault events" in made.log, 30)
    return made


def get(agent: AgentProcess, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(agent.url + path, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, json.load(exc)


def faulty(code: str, chip: int, *, confirmed: bool = True) -> Any:
    def check(report: NodeReport) -> bool:
        return any((one.code, one.chip, one.confirmed) == (code, chip, confirmed) for one in report.faults)

    return check


def test_a_fault_is_reported_by_its_event_confirmed_and_cleared_while_no_poll_is_due(
    host: SimHost, library: Path, make_agent: MakeAgent, redis_server: RedisServer
) -> None:
    agent = make_agent(host, redis_server.url, chips_s=600)
    healthy = agent.ready()
    assert [chip.health for chip in healthy.chips] == ["ok"] * 8
    assert (healthy.node, healthy.machine.generation, healthy.machine.driver) == (NODE, "910B", host.state().driver)
    assert healthy.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    wait_until("the subscription", lambda: "subscribed to the driver's fault events" in agent.log)
    host.occur(3, HBM)
    report = agent.until("the fault", faulty(HBM, 3))
    (fault,) = report.faults
    assert (fault.id, fault.level, fault.origin) == (f"{HBM}@3", FaultLevel.RESTART_BUSINESS, "probe")
    assert {chip.phy: chip.health for chip in report.chips}[3] == "fault"
    host.recover(3, HBM)
    agent.until("the end of it", lambda report: not report.faults)
    wait_until("its history", lambda: agent.history() == [f"raised {HBM}@3", f"cleared {HBM}@3"])
    assert agent.terminate() < QUICK_S


def test_reports_of_a_healthy_node_are_small_and_regular(agent: AgentProcess) -> None:
    first = agent.ready()
    later = agent.until("a heartbeat", lambda report: report.seq >= first.seq + 2)
    assert later.session == first.session
    assert later.at > first.at
    assert [probe for probe in later.probes if probe.error is None] == [], "a report lists probes in trouble alone"
    assert agent.history() == [], "a heartbeat is no history"


def test_a_lost_card_is_a_fault_of_its_own_and_comes_back(host: SimHost, agent: AgentProcess) -> None:
    host.drop(5)
    report = agent.until("the lost card", lambda report: "40F84E00@5" in fault_ids(report))
    assert fault_ids(report) == {"40F84E00@5"}
    host.back(5)
    agent.until("the card", lambda report: not report.faults)


def test_a_hung_chip_is_unknown_keeps_its_fault_and_the_others_are_watched(host: SimHost, agent: AgentProcess) -> None:
    host.occur(2, HBM)
    agent.until("the fault", faulty(HBM, 2))
    host.hang(2)
    report = agent.until("chip 2 unknown and the node blind", lambda r: "NW-MONITOR-BLIND@node" in fault_ids(r))
    assert [one.chip for one in report.unknown] == [2]
    assert f"{HBM}@2" in fault_ids(report)
    host.occur(6, HBM)
    agent.until("a fault of another chip", faulty(HBM, 6))
    assert len(agent.pids) <= 4, "agent, events, worker, one abandoned: a replacement is not replaced"


def test_a_driver_that_hangs_makes_the_node_blind_and_keeps_its_faults(host: SimHost, agent: AgentProcess) -> None:
    host.occur(1, HBM)
    agent.until("the fault", faulty(HBM, 1))
    host.hang(None)
    report = agent.until("the node is blind", lambda r: "NW-MONITOR-BLIND@node" in fault_ids(r))
    assert f"{HBM}@1" in fault_ids(report)
    assert {one.chip for one in report.unknown} >= set(range(8))
    assert agent.terminate() < QUICK_S


def test_a_kill_keeps_open_faults_and_unsent_history(
    host: SimHost, agent: AgentProcess, redis_server: RedisServer
) -> None:
    host.occur(3, HBM)
    before = agent.until("the fault", faulty(HBM, 3))
    redis_server.stop()
    host.occur(4, HBM)
    wait_until("the second fault", lambda: get(agent, "/v1/faults")[1]["items"][1:])
    agent.kill()
    redis_server.start()
    host.recover(4, HBM)
    agent.start()
    report = agent.until("a report of the new process", lambda report: report.session != before.session, 40)
    agent.until("the healed chip", lambda report: fault_ids(report) == {f"{HBM}@3"})
    (fault,) = [one for one in report.faults if one.chip == 3]
    assert fault.since == before.faults[0].since, "an open fault is not raised again"
    wait_until("its history", lambda: len(agent.history()) >= 2)
    assert agent.history() == [f"raised {HBM}@4", f"cleared {HBM}@4"], "the first note went with the old Redis"


def test_children_do_not_outlive_a_killed_agent(agent: AgentProcess) -> None:
    children = agent.pids[1:]
    assert len(children) == 2
    agent.kill()
    wait_until("no child is left", lambda: not [pid for pid in children if Path(f"/proc/{pid}").exists()])


def test_the_end_is_quick_while_a_chip_hangs_and_redis_is_gone(
    host: SimHost, agent: AgentProcess, redis_server: RedisServer
) -> None:
    host.hang(2)
    redis_server.stop()
    wait_until("the hang is noticed", lambda: "abandoning" in agent.log)
    assert agent.terminate() < QUICK_S
    assert "Traceback" not in agent.log


def test_without_events_polling_finds_faults(
    host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    host.events(False)
    agent = make_agent(host, redis_server.url)
    agent.ready()
    host.occur(3, HBM)
    agent.until("the fault", faulty(HBM, 3), timeout_s=10)
    host.recover(3, HBM)
    agent.until("the end of it", lambda report: not report.faults, timeout_s=10)


def test_a_lost_event_is_found_by_polling(host: SimHost, agent: AgentProcess) -> None:
    host.occur(3, HBM, event=False)
    agent.until("the fault", faulty(HBM, 3), timeout_s=10)
    host.recover(3, HBM, event=False)
    agent.until("the end of it", lambda report: not report.faults, timeout_s=10)


def test_without_the_library_the_tools_are_used(
    host: SimHost, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    agent = make_agent(host, redis_server.url, library=False, hccn=True, chips_s=2, links_s=5)
    report = agent.until("eight chips", lambda report: len(report.chips) == 8, 40)
    assert {chip.health for chip in report.chips} == {"ok"}
    assert "falling back to npu-smi" in agent.log
    host.occur(6, HBM)
    agent.until("the fault", faulty(HBM, 6), timeout_s=30)
    host.link(1, up=False)
    agent.until("the link that is down", lambda report: "81078603@1" in fault_ids(report), timeout_s=40)


def test_without_anything_to_look_through_the_node_is_blind(
    host: SimHost, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    agent = make_agent(host, redis_server.url, library=False, tools=False)
    report = agent.until("the node is blind", lambda r: "NW-MONITOR-BLIND@node" in fault_ids(r), 40)
    assert report.chips == ()
    status, body = get(agent, "/v1/health?strict=1")
    assert (status, body["healthy"]) == (503, False)
    assert get(agent, "/livez")[0] == 200, "a blind agent is alive"


def test_pods_that_hold_a_chip_are_named(host: SimHost, agent: AgentProcess, tmp_path: Path) -> None:
    path = tmp_path / "kubelet" / CHECKPOINT
    path.parent.mkdir(parents=True)
    entry = {"PodUID": "uid-1", "ResourceName": "huawei.com/Ascend910", "DeviceIDs": {"0": ["Ascend910-2"]}}
    path.write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1}))
    report = agent.until("the pod", lambda report: any(chip.pods for chip in report.chips))
    assert {chip.phy: chip.pods for chip in report.chips if chip.pods} == {2: ("uid-1",)}


def test_a_fault_file_changes_the_level_of_an_open_fault(host: SimHost, agent: AgentProcess, tmp_path: Path) -> None:
    host.occur(3, HBM)
    agent.until("the fault", faulty(HBM, 3))
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "faultCode.json").write_text(json.dumps({"NotHandleFaultCodes": [HBM]}))
    agent.until("its new level", lambda report: report.faults[0].level is FaultLevel.NOT_HANDLE)
    (faults / "faultCode.json").write_text("{ no json")
    wait_until("the complaint", lambda: "faultCode.json" in agent.log and "stays in force" in agent.log)


def test_what_http_answers(host: SimHost, agent: AgentProcess) -> None:
    host.occur(3, HBM)
    agent.until("the fault", faulty(HBM, 3))
    assert get(agent, "/livez") == (200, {"status": "ok"})
    assert get(agent, "/readyz") == (200, {"status": "ok"})
    status, health = get(agent, "/v1/health")
    assert (status, health["node"], health["healthy"], health["level"]) == (200, NODE, False, "RestartBusiness")
    assert [fault["id"] for fault in health["faults"]] == [f"{HBM}@3"]
    assert get(agent, "/v1/health?strict=1")[0] == 503
    assert get(agent, "/v1/health?strict=yes")[0] == 400
    status, chips = get(agent, "/v1/chips")
    assert (status, [chip["phy"] for chip in chips["items"]], chips["next"]) == (200, list(range(8)), None)
    status, chip = get(agent, "/v1/chips/3")
    assert (chip["chip"]["health"], chip["faults"][0]["code"]) == ("fault", HBM)
    status, missing = get(agent, "/v1/chips/99")
    assert (status, missing["title"]) == (404, "No such chip")
    assert "0, 1, 2" in missing["detail"]
    assert get(agent, "/v1/faults")[1]["items"][0]["id"] == f"{HBM}@3"
    assert get(agent, "/v1/report")[1]["node"] == NODE
    assert {probe["name"] for probe in get(agent, "/v1/probes")[1]["items"]} >= {"chip_health", "card_lost"}
    assert get(agent, "/v1/nothing")[0] == 404
    status, document = get(agent, "/openapi.json")
    assert "/v1/chips/{phy}" in document["paths"]
    known = {path for path in document["paths"] if "{" not in path and path != "/metrics"}
    assert {get(agent, path)[0] for path in known} == {200}
    with urllib.request.urlopen(agent.url + "/metrics", timeout=5) as answer:
        text = answer.read().decode()
    assert 'npuwarden_agent_open_faults{level="RestartBusiness",origin="probe"} 1.0' in text
    assert "npuwarden_agent_subscribed 1.0" in text
    host.recover(3, HBM)
    agent.until("the end of it", lambda report: not report.faults)
    assert get(agent, "/v1/health?strict=1")[0] == 200


def test_a_redis_url_that_cannot_be_used_ends_with_2_and_one_line(
    host: SimHost, tmp_path: Path, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(f'[redis]\nurl = "http://nowhere"\n[paths]\nstate_dir = "{tmp_path}"\n')
    done = subprocess.run(
        [sys.executable, "-c", "from console.main import main; main()", "agent", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "redis.url" in done.stderr


def test_a_worker_killed_from_outside_is_replaced(host: SimHost, agent: AgentProcess) -> None:
    for pid in agent.pids[1:]:
        os.kill(pid, signal.SIGKILL)
    host.occur(3, HBM)
    agent.until("the fault", faulty(HBM, 3), timeout_s=10)
    assert "NW-MONITOR-BLIND@node" not in fault_ids(agent.ready())
