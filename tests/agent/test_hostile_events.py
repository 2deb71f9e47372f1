"""Event storms, and events that name nobody: they cost neither the watch nor the CPU, and no fault is missed."""

import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.lab.host import SimHost
from shared.model import NodeReport
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import AgentProcess, fault_ids
from tests.redis_server import RedisServer
from tests.waiting import wait_until

SOURCE = """
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <stdio.h>
#define OUT __attribute__((visibility("default")))
struct event { int type; int pad; unsigned id; unsigned short device; unsigned char nt, ni, st, si, severity, assertion;
               int serial, notify; unsigned long long at; char name[256]; char rest[360]; };
typedef void (*callback)(struct event *);
static callback notify;
struct filter { unsigned long long flag; unsigned id; unsigned char rest[36]; };
OUT int dcmi_init(void) { return 0; }
OUT int dcmi_get_card_list(int *n, int *list, int room) { *n = 4; for (int i = 0; i < 4; i++) list[i] = i; return 0; }
OUT int dcmi_get_device_id_in_card(int c, int *d, int *m, int *p) { *d = 1; *m = -1; *p = -1; return 0; }
OUT int dcmi_get_device_logic_id(int *logic, int card, int device) { *logic = card; return 0; }
OUT int dcmi_get_device_phyid_from_logicid(unsigned logic, unsigned *phy) {
    if (logic > 3) return -8001;
    *phy = logic; return 0;
}
OUT int dcmi_get_device_health(int card, int device, unsigned *health) {
    FILE *f = fopen(COUNT, "a"); if (f && card == 0) fputc('x', f); if (f) fclose(f);
    *health = 0; return 0;
}
OUT int dcmi_get_device_errorcode_v2(int c, int d, int *n, unsigned *codes, unsigned room) { *n = 0; return 0; }
static void *storm(void *unused) {
    static struct event e;
    for (int i = 0;; i++) {
        memset(&e, 0, sizeof e);
        e.id = 0x80E01801u; e.severity = 2; e.notify = i; strcpy(e.name, "storm");
        STORM;
        notify(&e);
        usleep(PAUSE_US);
    }
}
OUT int dcmi_subscribe_fault_event(int card, int device, struct filter f, callback c) {
    pthread_t thread; notify = c;
    pthread_create(&thread, 0, storm, 0);
    return 0;
}
"""


@pytest.fixture
def polls(tmp_path: Path) -> Path:
    """One byte for each reading of chip 0."""
    path = tmp_path / "polls"
    path.touch()
    return path


def host_of(storm: str, pause_us: int, polls: Path, directory: Path) -> SimHost:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = directory / "storm.c"
    text = SOURCE.replace("STORM;", f"{storm};").replace("PAUSE_US", str(pause_us)).replace("COUNT", f'"{polls}"')
    source.write_text(text)
    target = directory / "libdcmi.so"
    argv = [compiler, "-shared", "-fPIC", "-w", "-pthread", "-o", str(target), str(source)]
    subprocess.run(argv, check=True)
    host = SimHost.create(directory / "host", "910B", 4)

    class Stormy:
        library, npu_smi, hccn_tool, sysfs = target, host.npu_smi, host.hccn_tool, directory / "no-sysfs"

        @staticmethod
        def env() -> dict[str, str]:
            return {}

    stormy: Any = Stormy()
    made: SimHost = stormy
    return made


def polled_in_3_s(agent: AgentProcess, polls: Path) -> int:
    """Readings of chip 0 in three seconds, after the agent has settled."""
    wait_until("the subscription", lambda: "subscribed to the driver's fault events" in agent.log, 30)
    count, begun = polls.stat().st_size, time.monotonic()
    wait_until("three seconds", lambda: time.monotonic() > begun + 3)
    # A busy machine wakes the test late.
    return int((polls.stat().st_size - count) * 3 / (time.monotonic() - begun))


def test_a_storm_of_events_that_name_no_chip_is_no_storm_of_polls(
    redis_server: RedisServer, make_agent: MakeAgent, polls: Path, tmp_path: Path
) -> None:
    agent = make_agent(host_of("e.device = 77; e.assertion = 1", 1000, polls, tmp_path), redis_server.url)
    agent.ready()
    made = polled_in_3_s(agent, polls)
    assert made <= 12, "one poll a second is due, and some more"
    assert fault_ids(agent.ready()) == set()


@pytest.mark.parametrize(
    "storm",
    ["e.device = i % 4; e.assertion = i % 3", "e.device = 1; e.assertion = (i / 4) % 2", "e.id = i; e.assertion = 1"],
)
def test_a_storm_of_10000_a_second_is_survived(
    redis_server: RedisServer, make_agent: MakeAgent, polls: Path, tmp_path: Path, storm: str
) -> None:
    agent = make_agent(host_of(storm, 50, polls, tmp_path), redis_server.url)
    agent.ready()
    made = polled_in_3_s(agent, polls)
    assert made <= 60, "ten reads a second that confirm events, one poll a second, and some more"
    report = agent.ready()
    assert agent.until("a later report", lambda one: one.seq > report.seq)
    with urllib.request.urlopen(agent.url + "/livez", timeout=5) as answer:
        assert answer.status == 200
    rss_mb = int(Path(f"/proc/{agent.pids[0]}/statm").read_text().split()[1]) * 4 / 1024
    assert rss_mb < 150
    assert agent.terminate() < 20
    assert "Traceback" not in agent.log


def test_an_event_child_that_is_killed_again_and_again_comes_back(
    host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    agent = make_agent(host, redis_server.url)
    agent.ready()
    for chip in (1, 3, 5):
        lines = agent.log.count("subscribed to the driver's fault events")
        found = wait_until("the event child", lambda: [pid for pid in agent.pids[1:] if _is_events(pid)], 30)
        os.kill(found[0], signal.SIGKILL)
        host.occur(chip, "80E01801")
        agent.until("the fault", shows(chip))
        host.recover(chip, "80E01801")
        agent.until("its end", lambda report: not report.faults)
        wait_until("a new subscription", more_subscriptions(agent, lines), 30)
    assert len(agent.pids) <= 3


def shows(chip: int) -> Callable[[NodeReport], bool]:
    return lambda report: f"80E01801@{chip}" in fault_ids(report)


def more_subscriptions(agent: AgentProcess, than: int) -> Callable[[], bool]:
    return lambda: agent.log.count("subscribed to the driver's fault events") > than


def _is_events(pid: int) -> bool:
    try:
        return "dcmi_events.py" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
