"""The kernel log: which messages mean what, when they count, and with the driver asked about a lost heartbeat."""

import itertools
import os
import time
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from agent import probes
from agent.config import AgentConfig, Paths
from agent.detect.readings import ChipIdentity
from agent.limits import Kmsg as KmsgLimits
from agent.limits import ProbeLimits
from agent.probe import CannotLook, NoDriver, Observation, Sensors
from agent.probes.kmsg import KernelLog
from agent.sensors.kmsg import MAX_RECORDS, Kmsg, parse
from agent.sensors.kmsg_patterns import CODES, match
from agent.sensors.pci import PciBus
from agent.sensors.worker import ChipFacts, Enumeration
from shared import catalog
from shared.aio import now
from shared.model import Instant
from shared.names import CODE_CARD_LOST

HEARTBEAT = "[ascend] [ERROR] [drv_soft_fault] [judge 1] <kworker/1:1:9> Heartbeat lost! (device_id=3; old_count=1;)"


numbers = itertools.count(17)


def record(text: str, *, age_s: float = 0.0) -> str:
    return f"4,{next(numbers)},{int((time.monotonic() - age_s) * 1e6)},-;{text}\n"


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


def test_the_times_are_those_of_the_message() -> None:
    message = parse("6,339,5000000,-;usb 1-1: new device", Instant(mono=65.0, wall=1000.0))
    assert message is not None
    assert (message.text, message.wall, message.mono, message.seq) == ("usb 1-1: new device", 940.0, 5.0, 339)
    assert parse(" SUBSYSTEM=usb", Instant(65.0, 1000.0)) is None


def test_reading_begins_with_the_ring_and_joins_what_came_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(record("old"))
    kmsg = Kmsg(path)
    kmsg.open()
    assert [message.text for message in kmsg.new(now())] == ["old"]
    whole = record("first") + " KEY=value\n" + record("second")
    with path.open("a") as log:
        log.write(whole[:-4])
    seen = kmsg.new(now())
    with path.open("a") as log:
        log.write(whole[-4:])
    seen += kmsg.new(now())
    kmsg.close()
    assert [message.text for message in seen] == ["first", "second"]


def probe_on(path: Path, *, hold_s: float = 600) -> KernelLog:
    chips = NoDriver("none")
    chips.enumeration = Enumeration({3: ChipFacts((3, 0), ChipIdentity(3))})
    config = AgentConfig(
        paths=Paths(kmsg=str(path), state_dir=str(path.parent), kubelet_dir="/absent"),
        probes=ProbeLimits(kmsg=KmsgLimits(hold_s=hold_s)),
    )
    made = probes.load(config, Sensors(chips, PciBus(path.parent)))
    (probe,) = [one for one in made if isinstance(one, KernelLog)]
    return probe


def found(seen: Observation) -> dict[str, bool]:
    return {finding.code: finding.active for finding in seen.node or ()}


async def test_a_message_is_a_finding_with_its_text_and_what_was_not_seen_is_not_denied(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(record("usb 1-1: new device", age_s=300))
    probe = probe_on(path)
    assert (await probe.look()).node == (), "not even denied: the ring does not go back so far"
    with path.open("a") as log:
        log.write(record("EXT4-fs error (device sdb): now", age_s=2))
    (finding,) = (await probe.look()).node or ()
    assert (finding.code, finding.active) == ("NW-KMSG-STORAGE", True)
    assert finding.evidence["message"] == "EXT4-fs error (device sdb): now"


@pytest.mark.parametrize(
    ("age_s", "active"),
    [pytest.param(100, True, id="still holds"), pytest.param(700, False, id="over before the start")],
)
async def test_what_was_printed_before_the_start_counts_from_when_it_was_printed(
    tmp_path: Path, age_s: float, active: bool
) -> None:
    path = tmp_path / "kmsg"
    path.write_text(
        record("usb 1-1: new device", age_s=900) + record("Fatal machine check", age_s=age_s) + record("usb 1-1: gone")
    )
    seen = await probe_on(path).look()
    assert found(seen)["NW-KMSG-HARDWARE"] is active
    assert found(seen)["NW-KMSG-OOM"] is False, "the ring goes back a whole window, so this can be denied at once"
    if active:
        (finding,) = [one for one in seen.node or () if one.active]
        printed = datetime.fromisoformat(finding.evidence["at"]).timestamp()
        assert time.time() - printed == pytest.approx(age_s, abs=5)


async def test_the_whole_boot_is_known_when_the_ring_begins_with_its_first_record(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"5,0,{int(time.monotonic() * 1e6)},-;Linux version 6.6\n")
    assert set(found(await probe_on(path).look()).values()) == {False}


async def test_a_restart_goes_on_where_the_last_run_stopped(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    before = probe_on(path)
    await before.look()
    path.write_text(record("Fatal machine check", age_s=5000))  # the kernel's own clock has drifted
    assert found(await before.look())["NW-KMSG-HARDWARE"] is True
    kept = msgspec.json.encode(before.memory())
    with path.open("a") as log:
        log.write(record("EXT4-fs error (device sda): while nobody ran", age_s=5000))
    after = probe_on(path)
    after.recall(kept, now(), same_boot=True)
    seen = found(await after.look())
    assert (seen["NW-KMSG-HARDWARE"], seen["NW-KMSG-STORAGE"]) == (True, True)
    rebooted = probe_on(path)
    rebooted.recall(kept, replace(now(), wall=time.time() + 700), same_boot=False)
    path.write_text(f"5,0,{int(time.monotonic() * 1e6)},-;Linux version 6.6\n")
    assert found(await rebooted.look())["NW-KMSG-HARDWARE"] is False, "over by the wall clock"


async def test_records_that_the_ring_has_lost_are_told_and_nothing_is_denied_after_them(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"5,0,{int(time.monotonic() * 1e6)},-;Linux version 6.6\n6,1,1,-;usb 1-1: new device\n")
    probe = probe_on(path)
    assert set(found(await probe.look()).values()) == {False}
    with path.open("a") as log:
        log.write("3,12,1,-;Fatal machine check\n6,13,1,-;usb\n6,15,1,-;usb\n")
    seen = await probe.look()
    assert found(seen) == {"NW-KMSG-HARDWARE": True}, "the lost ones may have said anything"
    assert seen.trouble == "11 records of the kernel log were gone before they were read"
    after = await probe.look()
    assert (found(after), after.trouble) == ({"NW-KMSG-HARDWARE": True}, None)


async def test_a_log_that_is_opened_anew_is_read_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    probe = probe_on(path)
    await probe.look()
    path.write_text(record(HEARTBEAT))
    assert len((await probe.look()).events or ()) == 1
    probe._kmsg.close()
    with path.open("a") as log:
        log.write(record("usb 1-1: new device"))
    seen = await probe.look()
    assert (seen.events, seen.trouble) == ((), None), "the heartbeat that stands there still is not lost anew"


async def test_a_history_longer_than_one_look_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(
        "".join(record(f"usb 1-{n}: new device") for n in range(2 * MAX_RECORDS)) + record("Kernel panic - not syncing")
    )
    assert found(await probe_on(path).look())["NW-KMSG-OOPS"] is True


async def test_a_lost_heartbeat_is_an_event_of_that_chip_and_of_the_node_where_no_such_chip_is(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(record(HEARTBEAT) + record(HEARTBEAT.replace("=3;", "=9;")))
    probe = probe_on(path)
    seen = await probe.look()
    assert (seen.events, seen.node) == ((), ()), "before the start: the first poll of the driver tells"
    with path.open("a") as log:
        log.write(record(HEARTBEAT) + record(HEARTBEAT.replace("=3;", "=9;")))
    seen = await probe.look()
    assert [(event.phy, event.code) for event in seen.events or ()] == [(3, CODE_CARD_LOST)]
    assert [finding.code for finding in seen.node or ()] == ["NW-KMSG-NPU"]


async def test_a_log_that_cannot_be_read_is_unknown_and_read_again_when_it_can(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.mkdir()
    probe = probe_on(path)
    with pytest.raises(CannotLook, match="kmsg: Is a directory"):
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
    messages = kmsg.new(now())
    assert sorted(message.seq for message in messages) == [message.seq for message in messages]
    kmsg.close()
