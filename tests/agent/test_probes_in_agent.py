"""Findings of probes on their way through the daemon into the report."""

import textwrap
import time
from pathlib import Path

from console.lab.host import SimHost
from tests.agent.conftest import MakeAgent
from tests.redis_server import RedisServer

FLAPS_ON_2 = textwrap.dedent("""\
    #!/bin/sh
    [ "$3" = -link_stat ] || { echo "Command unsupported" >&2; exit 1; }
    echo "[devid $2]current time        : Sun Nov 30 12:00:00 2025"
    echo "[devid $2]link up count       : 0"
    [ "$2" = 2 ] || { echo "[devid $2]link change records : NA"; exit; }
    echo "[devid 2]link change records :"
    for second in 30 20 10; do echo "[devid 2]    Sun Nov 30 11:59:$second 2025    LINK DOWN"; done
""")


def test_what_kernel_ports_and_a_tool_say_is_in_the_report_and_survives_a_kill(
    host: SimHost, make_agent: MakeAgent, redis_server: RedisServer, tmp_path: Path
) -> None:
    kmsg = tmp_path / "kmsg"
    kmsg.touch()
    host.hccn_tool.write_text(FLAPS_ON_2)
    agent = make_agent(host, redis_server.url, hccn=True, kmsg=kmsg)
    agent.until("the flapping port", lambda report: "NW-LINK-FLAP@2" in {fault.id for fault in report.faults})
    with kmsg.open("a") as log:
        log.write(f"3,1,{int(time.monotonic() * 1e6)},-;EXT4-fs error (device sdb): ext4_lookup:1\n")
    agent.until("the message", lambda report: "NW-KMSG-STORAGE@node" in {fault.id for fault in report.faults})
    report = agent.until("the tool that can do one thing only", lambda report: bool(report.probes))
    levels = {fault.id: (fault.level.value, fault.part, fault.confirmed) for fault in report.faults}
    assert levels["NW-LINK-FLAP@2"] == ("SubHealthFault", "link", True)
    assert levels["NW-KMSG-STORAGE@node"] == ("SubHealthFault", None, True)
    assert {chip.health for chip in report.chips} == {"ok"}
    in_trouble = {probe.name for probe in report.probes}
    assert "net_health" in in_trouble
    assert not in_trouble & {"kmsg", "link_flap", "hbm_ecc"}
    before = report.session
    agent.kill()
    agent.start()
    after = agent.until("a report of the new process", lambda report: report.session != before, 40)
    assert "NW-KMSG-STORAGE@node" in {fault.id for fault in after.faults}, "a message is no state: nobody denies it"
