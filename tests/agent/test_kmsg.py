"""The kernel log: which messages mean what, from now on, and with the driver asked about a lost heartbeat."""

import os
import time
from pathlib import Path

import pytest

from agent import probes
from agent.config import AgentConfig, Paths
from agent.detect.readings import ChipIdentity
from agent.limits import Kmsg as KmsgLimits
from agent.limits import ProbeLimits
from agent.probe import CannotLook, NoDriver, Probe, Sensors
from agent.sensors.kmsg import Kmsg, parse
from agent.sensors.kmsg_patterns import CODES, match
from agent.sensors.pci import PciBus
from agent.sensors.worker import ChipFacts, Enumeration
from shared import catalog
from shared.aio import now
from shared.model import Instant
from shared.names import CODE_CARD_LOST

HEARTBEAT = "[ascend] [ERROR] [drv_soft_fault] [judge 1] <kworker/1:1:9> Heartbeat lost! (device_id=3; old_count=1;)"


def record(text: str, *, age_s: float = 0.0) -> str:
    return f"4,17,{int((time.monotonic() - age_s) * 1e6)},-;{text}\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HEARTBEAT, CODE_CARD_LOST),
        (HEARTBEAT.replace("device_id", "device"), CODE_CARD_LOST),
        ("[ascend] [devdrv] [ERROR] Device heart beat lost, stop all msg send. (dev_id=3)", CODE_CARD_LOST),
        ("[ascend] [ERROR] [devdrv] Channel is blocked. (dev_id=1; aer_critical_cnt=4)", "NW-KMSG-NPU"),
        ("[ascend] [ERROR] [devdrv] [f 1] DMA timeout", "NW-KMSG-NPU"),
        ("Out of memory: Killed process 6033 (java) total-vm:1kB, anon-rss:1kB, file-rss:1kB", "NW-KMSG-OOM"),
        ("INFO: task npu-smi:4711 blocked for more than 120 seconds.", "NW-KMSG-HUNG-TASK"),
        ("watchdog: BUG: soft lockup - CPU#12 stuck for 23s! [kworker/12:1:99]", "NW-KMSG-LOCKUP"),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 34", "NW-KMSG-LOCKUP"),
        ("BUG: unable to handle kernel NULL pointer dereference at 0000000000000008", "NW-KMSG-OOPS"),
        ("{1}[Hardware Error]: event severity: fatal", "NW-KMSG-HARDWARE"),
        ("{1}[Hardware Error]: event severity: corrected", "NW-KMSG-CORRECTED"),
        ("pcieport 0000:c0:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction", "NW-KMSG-PCIE"),
        ("EXT4-fs error (device sdb): ext4_lookup:1441: inode #4: comm x: deleted inode", "NW-KMSG-STORAGE"),
        ("nvme nvme0: I/O 23 QID 4 timeout, reset controller", "NW-KMSG-STORAGE"),
        ("nf_conntrack: nf_conntrack: table full, dropping packet", "NW-KMSG-RESOURCE"),
        ("pcieport 0000:c0:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", None),
        ("eth0: Link is Up - 10Gbps/Full", None),
        ("oom_kill_process is a function", None),
    ],
)
def test_what_a_message_means(text: str, code: str | None) -> None:
    found = match(text)
    assert (found[0] if found else None) == code


def test_every_code_of_the_table_is_in_the_catalogue() -> None:
    rows = catalog.load().rows()
    assert all(rows[code].kind == "node" for code in CODES)


def test_the_wall_time_is_that_of_the_message() -> None:
    message = parse("6,339,5000000,-;usb 1-1: new device", Instant(mono=65.0, wall=1000.0))
    assert message is not None
    assert (message.text, message.wall) == ("usb 1-1: new device", 940.0)
    assert parse(" SUBSYSTEM=usb", Instant(65.0, 1000.0)) is None


def test_reading_begins_now_and_joins_what_came_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(record("old"))
    kmsg = Kmsg(path)
    kmsg.open()
    assert kmsg.new(now()) == []
    whole = record("first") + " KEY=value\n" + record("second")
    with path.open("a") as log:
        log.write(whole[:-4])
    seen = kmsg.new(now())
    with path.open("a") as log:
        log.write(whole[-4:])
    seen += kmsg.new(now())
    kmsg.close()
    assert [message.text for message in seen] == ["first", "second"]


def probe_on(path: Path, *, hold_s: float = 600) -> Probe:
    chips = NoDriver("none")
    chips.enumeration = Enumeration({3: ChipFacts((3, 0), ChipIdentity(3))})
    config = AgentConfig(
        paths=Paths(kmsg=str(path), state_dir=str(path.parent), kubelet_dir="/absent"),
        probes=ProbeLimits(kmsg=KmsgLimits(hold_s=hold_s)),
    )
    made = probes.load(config, Sensors(chips, PciBus(path.parent)))
    (probe,) = [one for one in made if one.name == "kmsg"]
    return probe


async def test_a_message_is_a_finding_with_its_text_and_what_was_not_seen_is_not_denied(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(record("EXT4-fs error (device sda): before the start"))
    probe = probe_on(path)
    assert (await probe.look()).node == (), "not even denied: the agent may have told it before its restart"
    with path.open("a") as log:
        log.write(record("EXT4-fs error (device sdb): now", age_s=2))
    (finding,) = (await probe.look()).node or ()
    assert (finding.code, finding.active) == ("NW-KMSG-STORAGE", True)
    assert finding.evidence["message"] == "EXT4-fs error (device sdb): now"


async def test_a_lost_heartbeat_is_an_event_of_that_chip_and_of_the_node_where_no_such_chip_is(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    probe = probe_on(path)
    with path.open("a") as log:
        log.write(record(HEARTBEAT) + record(HEARTBEAT.replace("=3;", "=9;")))
    seen = await probe.look()
    assert [(event.phy, event.code) for event in seen.events or ()] == [(3, CODE_CARD_LOST)]
    assert [finding.code for finding in seen.node or ()] == ["NW-KMSG-NPU"]


async def test_a_log_that_cannot_be_read_is_unknown_and_read_again_when_it_can(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.mkdir()
    probe = probe_on(path)
    with pytest.raises(CannotLook, match="kmsg: Invalid argument"):
        await probe.look()
    path.rmdir()
    path.touch()
    await probe.look()
    with path.open("a") as log:
        log.write(record("Fatal machine check"))
    assert [finding.code for finding in (await probe.look()).node or ()] == ["NW-KMSG-HARDWARE"]


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg cannot be read here")
def test_the_real_device_can_be_read_without_waiting() -> None:
    kmsg = Kmsg(Path("/dev/kmsg"))
    kmsg.open()
    assert isinstance(kmsg.new(now()), list)
    kmsg.close()
