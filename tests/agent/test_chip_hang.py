"""The probe for chips that hang, on simulated hosts: driver, hccn_tool and /proc."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from agent.config import AgentConfig, Paths
from agent.probe import CannotLook, NoDriver, Observation, Probe, Sensors
from agent.probes import chip_hang
from agent.remembering import recall, remember
from agent.sensors.cpu_time import CpuTime, parse_stat, read_cpu_times
from agent.sensors.hccn import Hccn
from agent.sensors.hccn_950 import FLITS
from agent.sensors.holders import NotTheHost
from agent.sensors.npu_smi import NpuSmi
from agent.sensors.npu_smi_gauges import NpuSmiGauges
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from console.lab.host.state import DriverRule
from shared.aio import now
from tests.agent.conftest import MakeHost
from tests.agent.test_chip_probes import active, alter, denied, driver_of, net

CODE = chip_hang.CODE
ENGINE, HELPER = 4711, 4712
slow = pytest.mark.slow


class Proc:
    """A /proc with the processes that a test wants."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "proc"
        (self.path / "2").mkdir(parents=True)
        (self.path / "2/comm").write_text("kthreadd\n")

    def runs(self, pid: int, cpu_ticks: int, *, start: int = 1000) -> None:
        (self.path / str(pid)).mkdir(exist_ok=True)
        fields = ["S", *["0"] * 10, str(cpu_ticks), "0", *["0"] * 6, str(start), "0"]
        (self.path / str(pid) / "stat").write_text(f"{pid} (VLLM ) Engine) {' '.join(fields)}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.runs(ENGINE, 30_000)
    made.runs(HELPER, 100)
    return made


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets a minute pass for the probe."""
    clock = [1000.0]
    monkeypatch.setattr(chip_hang, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def pass_() -> None:
        clock[0] += 60.0

    return pass_


def probe_of(sensors: Sensors, proc: Proc) -> Probe:
    probe = chip_hang.make(AgentConfig(paths=Paths(procfs=str(proc.path))), sensors)
    assert probe is not None
    return probe


async def looks(probe: Probe, minute: Callable[[], None], count: int) -> list[Observation]:
    seen = []
    for _ in range(count):
        seen.append(await probe.look())
        minute()
    return seen


@slow
async def test_a_chip_that_is_held_and_does_nothing_hangs_and_a_sign_of_life_ends_it(
    host: SimHost, proc: Proc, minute: Callable[[], None]
) -> None:
    host.hold(3, ENGINE, HELPER)
    host.hold(4, ENGINE, aicore_pct=40)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = probe_of(sensors, proc)
        first, *between, last = await looks(probe, minute, 6)
        assert active(first) == [] == [one for seen in between for one in active(seen)]
        assert (CODE, 3) not in denied(first) | denied(last), "not to be told before five minutes"
        assert denied(first) >= {(CODE, 0), (CODE, 4)}
        assert active(last) == [(CODE, 3)]
        (hang,) = [one for one in last.chips or () if one.active]
        assert hang.evidence == {
            "processes": f"{ENGINE}, {HELPER}",
            "idle": "5 looks in a row, 60 s apart",
            "aicore": "0 %",
        }
        assert last.trouble is None
        alter(host, 3, net(stat={"roce_rx_all_pkt_num": 5000}))
        assert (CODE, 3) in denied(await probe.look())


@slow
async def test_looks_before_a_restart_count_and_those_before_a_reboot_do_not(
    host: SimHost, proc: Proc, minute: Callable[[], None]
) -> None:
    host.hold(3, ENGINE, HELPER)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        before = probe_of(sensors, proc)
        await looks(before, minute, 5)
        after, rebooted = probe_of(sensors, proc), probe_of(sensors, proc)
        recall([after], remember([before]), now(), same_boot=True)
        recall([rebooted], remember([before]), now(), same_boot=False)
        assert active(await after.look()) == [(CODE, 3)]
        seen = await rebooted.look()
    assert (CODE, 3) not in {*active(seen), *denied(seen)}


@slow
async def test_processes_that_compute_on_the_cpu_are_alive(
    host: SimHost, proc: Proc, minute: Callable[[], None]
) -> None:
    host.hold(3, ENGINE)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = probe_of(sensors, proc)
        for number in range(8):
            proc.runs(ENGINE, 30_000 + 600 * number)
            assert active(await probe.look()) == []
            minute()


@slow
@pytest.mark.parametrize("trouble", ["tool", "driver", "processes", "utilisation", "ended", "no counters"])
async def test_what_cannot_be_read_makes_no_hang(
    host: SimHost, proc: Proc, minute: Callable[[], None], trouble: str
) -> None:
    host.hold(3, ENGINE)
    rules = {
        "driver": {"*": DriverRule(ret=-8009)},
        "processes": {"dcmi_get_device_resource_info": DriverRule(ret=-8255)},
        "utilisation": {"dcmi_get_device_utilization_rate": DriverRule(ret=-8006)},
    }
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        host.change(lambda s: replace(s, faults=replace(s.faults, dcmi=rules.get(trouble, {}))))
        if trouble == "tool":
            host.hccn_tool.write_text("#!/bin/sh\necho Command unsupported; exit 1\n")
        elif trouble == "no counters":
            host.hccn_tool.write_text("#!/bin/sh\nprintf 'packet statistics:\\nmac_rx_bad_pkt_num:0\\n'\n")
        elif trouble == "ended":
            host.hold(3, 99)
        seen = await looks(probe_of(sensors, proc), minute, 8)
    assert [one for look in seen for one in active(look)] == []
    assert all((CODE, 3) not in denied(look) for look in seen), "and ends none"


@slow
async def test_processes_that_the_host_never_shows_are_told_and_one_that_has_just_ended_is_not(
    host: SimHost, proc: Proc, minute: Callable[[], None]
) -> None:
    host.hold(3, 99)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        first, second = await looks(probe_of(sensors, proc), minute, 2)
    assert first.trouble is None
    assert second.trouble == "chip 3: process 99, which holds it, is not in the host's /proc"


@slow
async def test_ports_are_asked_only_of_chips_that_are_held_and_rest(
    host: SimHost, proc: Proc, tmp_path: Path, minute: Callable[[], None]
) -> None:
    host.hold(3, ENGINE)
    host.hold(4, ENGINE, aicore_pct=90)
    calls = tmp_path / "calls"
    host.hccn_tool.write_text(
        f"#!/bin/sh\necho $2 >> {calls}\nprintf 'packet statistics:\\nroce_tx_all_pkt_num:0\\n'\n"
    )
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        await looks(probe_of(sensors, proc), minute, 2)
    assert calls.read_text().split() == ["3", "3"]


@slow
async def test_of_a_950_the_flits_of_its_ub_ports_count(
    make_host: MakeHost, proc: Proc, minute: Callable[[], None]
) -> None:
    host = make_host("950", chips=2)
    host.hold(0, ENGINE)
    host.hold(1, HELPER)
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = probe_of(sensors, proc)
        for number in range(6):
            alter(host, 1, net(stat=dict.fromkeys(FLITS, 1000 * number)))
            seen = await probe.look()
            minute()
    assert (active(seen), seen.trouble) == ([(CODE, 0)], None)
    assert (CODE, 1) in denied(seen)


@slow
async def test_another_pid_namespace_is_told_as_soon_as_a_chip_is_held(
    host: SimHost, proc: Proc, minute: Callable[[], None]
) -> None:
    (proc.path / "2/comm").write_text("sh\n")
    async with driver_of(host) as sensors:
        await sensors.chips.poll()
        probe = probe_of(sensors, proc)
        assert (await probe.look()).trouble is None, "nobody holds a chip"
        host.hold(3, ENGINE)
        with pytest.raises(CannotLook, match="needs hostPID"):
            await probe.look()


def test_without_ports_or_by_npu_smi_alone_nobody_can_tell(host: SimHost) -> None:
    bus = PciBus(host.sysfs)
    smi = NpuSmi(host.npu_smi, bus=bus, lock=None)
    hccn = Hccn(host.hccn_tool, lock=None)
    assert chip_hang.make(AgentConfig(), Sensors(smi, bus, hccn, NpuSmiGauges(smi))) is None
    assert chip_hang.make(AgentConfig(), Sensors(NoDriver(""), bus, None, NpuSmiGauges(smi))) is None


# CPU time.


def test_cpu_time_of_a_process_with_any_name(proc: Proc) -> None:
    proc.runs(ENGINE, 250, start=77)
    assert read_cpu_times(proc.path, frozenset({ENGINE, 99})).keys() == {ENGINE}
    assert parse_stat((proc.path / str(ENGINE) / "stat").read_text(), 100) == CpuTime(start=77, used_s=2.5)


@pytest.mark.parametrize("text", ["", "4711 (python3) S 1 2", "4711 (python3) S " + "x " * 30])
def test_what_is_no_stat_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no process|invalid literal"):
        parse_stat(text, 100)


def test_a_proc_of_another_namespace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotTheHost, match="needs hostPID"):
        read_cpu_times(tmp_path, frozenset({1}))
