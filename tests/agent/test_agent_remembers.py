"""The agent as a process, killed and started again: what its probes knew is known to the next."""

import itertools
import time
from pathlib import Path

import pytest

from console.lab.host import SimHost
from shared.model import NodeReport
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import fault_ids
from tests.redis_server import RedisServer

pytestmark = pytest.mark.slow

numbers = itertools.count(100)


def print_line(kmsg: Path, text: str) -> None:
    with kmsg.open("a") as log:
        log.write(f"3,{next(numbers)},{int(time.monotonic() * 1e6)},-;{text}\n")


def fatal_errors(host: SimHost, phy: int, total: int) -> None:
    device = host.sysfs / "bus/pci/devices" / host.state().device(phy).pci.address
    (device / "aer_dev_fatal").write_text(f"TLP {total}\nTOTAL_ERR_FATAL {total}\n")


def test_what_happens_while_no_agent_runs_is_found_by_the_next(
    host: SimHost, make_agent: MakeAgent, redis_server: RedisServer, tmp_path: Path
) -> None:
    kmsg = tmp_path / "kmsg"
    print_line(kmsg, "Linux version 6.6")
    for phy in range(8):
        fatal_errors(host, phy, 2)
    agent = make_agent(host, redis_server.url, kmsg=kmsg)
    report = agent.until("the firmware", lambda report: report.machine.firmware)
    assert (report.machine.driver, report.machine.firmware) == ("25.5.1", "7.7.0.3.231")
    # A rise that is seen shows that the counters of all chips were read before it.
    totals = itertools.count(3)

    def has_risen(report: NodeReport) -> bool:
        fatal_errors(host, 6, next(totals))
        return "NW-PCIE-FATAL@6" in fault_ids(report)

    agent.until("a rise", has_risen, 40)
    print_line(kmsg, "Fatal machine check")
    agent.until("the message", lambda report: "NW-KMSG-HARDWARE@node" in fault_ids(report))
    agent.kill()
    print_line(kmsg, "EXT4-fs error (device sdb): while no agent ran")
    fatal_errors(host, 5, 3)
    agent.start()
    found = {"NW-KMSG-HARDWARE@node", "NW-KMSG-STORAGE@node", "NW-PCIE-FATAL@5"}
    after = agent.until("what happened meanwhile", lambda report: found <= fault_ids(report), 40)
    assert "NW-PCIE-FATAL@4" not in fault_ids(after)
    assert agent.history().count("raised NW-KMSG-HARDWARE@node") == 1, "it is the same fault, not a new one"


def test_findings_of_a_probe_that_the_next_agent_does_not_run_are_unknown(
    host: SimHost, make_agent: MakeAgent, redis_server: RedisServer, tmp_path: Path
) -> None:
    kmsg = tmp_path / "kmsg"
    print_line(kmsg, "Fatal machine check")
    agent = make_agent(host, redis_server.url, kmsg=kmsg)
    before = agent.until("the message", lambda report: "NW-KMSG-HARDWARE@node" in fault_ids(report)).session
    agent.kill()
    kmsg.unlink()
    agent.start()
    after = agent.until("a report of the new process", lambda report: report.session != before, 40)
    assert "NW-KMSG-HARDWARE@node" in fault_ids(after)
    (why,) = [one.why for one in after.unknown if one.probe == "kmsg"]
    assert "NW-KMSG-HARDWARE@node" in why
    assert "probe kmsg: this agent does not run it" in agent.log
