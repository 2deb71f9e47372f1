"""Probes of the host: disk, memory, network cards, kubelet, PCIe, and processes that outlive their pods."""

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.config import AgentConfig, Paths
from agent.detect.readings import ChipIdentity
from agent.limits import Kubelet as KubeletLimits
from agent.limits import Pcie as PcieLimits
from agent.limits import ProbeLimits
from agent.probe import CannotLook, NoDriver, Observation, Probe, Sensors
from agent.probes import host_disk, host_memory, kubelet, nic_carrier, pcie, stale_process
from agent.probes.host_memory import HostMemory
from agent.probes.nic_carrier import NicCarrier
from agent.remembering import recall, remember
from agent.sensors.holders import pod_of
from agent.sensors.nics import Nic, read_nics
from agent.sensors.pci import PciBus
from agent.sensors.worker import ChipFacts, Enumeration
from console.lab.host import SimHost
from shared.aio import now
from tests.process import free_ports

POD, GONE = "0f1e2d3c-0000-4000-8000-000000000001", "0f1e2d3c-0000-4000-8000-000000000002"


def node(seen: Observation) -> dict[str, bool]:
    return {finding.code: finding.active for finding in seen.node or ()}


def chips(seen: Observation) -> dict[tuple[str, int], bool]:
    return {(finding.code, finding.phy): finding.active for finding in seen.chips or ()}


# Disk and memory.


@pytest.mark.parametrize(
    ("seen", "full", "read_only"),
    [
        pytest.param({"/var": (94.9, False)}, False, False, id="well"),
        pytest.param({"/var": (95.0, False), "/state": (10.0, False)}, True, False, id="one of them full"),
        pytest.param({"/var": (10.0, True)}, False, True, id="read-only"),
        pytest.param({"/var": (99.0, True)}, False, True, id="read-only and full is read-only"),
    ],
)
def test_a_disk_is_full_or_read_only(seen: dict[str, tuple[float, bool]], full: bool, read_only: bool) -> None:
    findings = host_disk.judge(seen, 95.0)
    assert {one.code: one.active for one in findings} == {"NW-DISK-FULL": full, "NW-DISK-READONLY": read_only}
    assert all(bool(one.evidence) is one.active for one in findings)


async def test_the_file_systems_of_state_and_kubelet_are_looked_at_even_before_their_directories_exist(
    tmp_path: Path,
) -> None:
    config = AgentConfig(paths=Paths(state_dir=str(tmp_path / "a/b"), kubelet_dir=str(tmp_path)))
    probe = host_disk.make(config, Sensors(NoDriver(""), PciBus(tmp_path)))
    assert node(await probe.look()).keys() == {"NW-DISK-FULL", "NW-DISK-READONLY"}


@pytest.mark.skipif(not os.path.ismount("/sys") or not os.statvfs("/sys").f_flag & os.ST_RDONLY, reason="/sys is rw")
def test_a_read_only_mount_is_seen_as_one() -> None:
    assert host_disk.look_at(Path("/sys"))[1]


@pytest.mark.parametrize(("available_mb", "low"), [(21, False), (20, False), (19, True)])
def test_memory_is_low_below_the_limit(available_mb: int, low: bool) -> None:
    assert host_memory.judge(1000 << 20, available_mb << 20, 2.0).active is low


async def test_memory_of_this_machine_and_memory_that_cannot_be_read(tmp_path: Path) -> None:
    sensors = Sensors(NoDriver(""), PciBus(tmp_path))
    assert node(await host_memory.make(AgentConfig(), sensors).look()).keys() == {"NW-MEMORY-LOW"}

    def fails() -> tuple[int, int]:
        raise OSError(13, "Permission denied")

    with pytest.raises(CannotLook, match="Permission denied"):
        await HostMemory(10, fails, available_pct=2).look()


# Network cards.


def nic(name: str = "eth0", **changes: Any) -> Nic:
    usual = {"enabled": True, "carrier": True, "ups": 1, "downs": 0}
    return Nic(name, **{**usual, **changes})


@pytest.mark.parametrize(
    ("cards", "down", "degraded"),
    [
        pytest.param([nic()], False, False, id="well"),
        pytest.param([nic(carrier=False, downs=1)], True, False, id="carrier lost"),
        pytest.param([nic(carrier=False, ups=0)], False, False, id="never had one: an empty socket"),
        pytest.param([nic(carrier=False, enabled=False)], False, False, id="switched off by hand"),
        pytest.param([nic(master="bond0"), nic("eth1", carrier=False, master="bond0")], False, True, id="bond"),
    ],
)
def test_which_carriers_are_missed(cards: list[Nic], down: bool, degraded: bool) -> None:
    findings = nic_carrier.carriers(cards)
    assert {one.code: one.active for one in findings} == {"NW-NIC-DOWN": down, "NW-BOND-DEGRADED": degraded}


async def test_a_card_that_loses_its_carrier_again_and_again_flaps_though_it_is_up_at_every_look() -> None:
    cards = [nic(downs=40), nic("veth0", downs=0, hardware=False)]
    probe = NicCarrier(10, lambda: cards, flaps=3, window_s=3600)
    assert "NW-NIC-FLAP" not in node(await probe.look()), "what was before the start is not counted, nor denied"
    cards[:] = [nic(downs=42), nic("veth0", downs=900, hardware=False)]
    assert "NW-NIC-FLAP" not in node(await probe.look())
    cards[:] = [nic(downs=43), nic("veth0", downs=1800, hardware=False)]
    assert node(await probe.look())["NW-NIC-FLAP"] is True


async def test_flaps_are_counted_on_over_a_restart() -> None:
    cards = [nic(downs=40)]
    before = NicCarrier(10, lambda: cards, flaps=3, window_s=3600)
    await before.look()
    cards[:] = [nic(downs=42)]
    await before.look()
    cards[:] = [nic(downs=43)]
    after = NicCarrier(10, lambda: cards, flaps=3, window_s=3600)
    recall([after], remember([before]), now(), same_boot=True)
    assert node(await after.look())["NW-NIC-FLAP"] is True


async def test_without_netlink_the_cards_are_unknown() -> None:
    def fails() -> list[Nic]:
        raise OSError(97, "Address family not supported")

    with pytest.raises(CannotLook, match="network cards: Address family"):
        await NicCarrier(10, fails, flaps=3, window_s=60).look()


def test_cards_of_this_machine_by_netlink(tmp_path: Path) -> None:
    (tmp_path / "class/net/lo/device").mkdir(parents=True)
    by_name = {one.name: one for one in read_nics(tmp_path)}
    assert by_name["lo"].hardware
    assert not any(one.hardware for name, one in by_name.items() if name != "lo")


# Kubelet.


@pytest.fixture
async def healthz(tmp_path: Path) -> Any:
    """A kubelet's healthz: ``start(handler)`` on a port that stays the same, ``stop()``."""
    (port,) = free_ports(1)
    runners: list[web.AppRunner] = []

    class Healthz:
        url = f"http://127.0.0.1:{port}/healthz"

        async def start(self, answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
            app = web.Application()
            app.router.add_get("/healthz", answer)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            runners.append(runner)

        async def stop(self) -> None:
            while runners:
                await runners.pop().cleanup()

    yield Healthz()
    await Healthz().stop()


def kubelet_probe(tmp_path: Path, url: str, *, looks: int = 2) -> kubelet.Kubelet:
    limits = KubeletLimits(url=url, timeout_s=0.3, looks=looks)
    (tmp_path / "kubelet").mkdir(exist_ok=True)
    config = AgentConfig(
        paths=Paths(kubelet_dir=str(tmp_path / "kubelet"), procfs=str(tmp_path / "proc")),
        probes=ProbeLimits(kubelet=limits),
    )
    probe = kubelet.make(config, Sensors(NoDriver(""), PciBus(tmp_path)))
    assert probe is not None
    return probe


async def ok(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def ill(_: web.Request) -> web.Response:
    return web.Response(status=500, text="[-]syncloop failed")


async def test_a_kubelet_that_says_it_is_ill_is_a_fault_at_the_second_look(tmp_path: Path, healthz: Any) -> None:
    probe = kubelet_probe(tmp_path, healthz.url)
    await healthz.start(ok)
    assert node(await probe.look()) == {"NW-KUBELET": False}
    await healthz.stop()
    await healthz.start(ill)
    assert node(await probe.look()) == {}
    (finding,) = (await probe.look()).node or ()
    assert finding.active
    assert "answered 500: [-]syncloop failed" in finding.evidence["healthz"]


async def test_a_kubelet_that_has_answered_and_is_gone_is_a_fault(tmp_path: Path, healthz: Any) -> None:
    probe = kubelet_probe(tmp_path, healthz.url, looks=1)
    await healthz.start(ok)
    await probe.look()
    await healthz.stop()
    assert node(await probe.look()) == {"NW-KUBELET": True}


async def test_where_no_kubelet_runs_and_nothing_listens_it_is_unknown(tmp_path: Path, healthz: Any) -> None:
    probe = kubelet_probe(tmp_path, healthz.url, looks=1)
    with pytest.raises(CannotLook, match="no kubelet runs here"):
        await probe.look()
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("kubelet\n")
    assert node(await probe.look()) == {"NW-KUBELET": True}, "it runs, and does not listen"


async def test_a_kubelet_that_does_not_answer_in_time_is_a_fault(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        probe = kubelet_probe(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}/healthz", looks=1)
        (finding,) = (await probe.look()).node or ()
    assert finding.active
    assert "no answer within 0.3 s" in finding.evidence["healthz"]


# PCIe.


class Tree:
    """The PCI functions of a simulated host, with error counters and link files."""

    def __init__(self, host: SimHost, limits: PcieLimits) -> None:
        self.bus = PciBus(host.sysfs)
        self.bus.look()
        driver = NoDriver("")
        self.devices = {device.phy: device.pci.address for device in host.state().devices}
        driver.enumeration = Enumeration(
            {phy: ChipFacts((phy, 0), ChipIdentity(phy, pci=name.upper())) for phy, name in self.devices.items()}
        )
        self._root = host.sysfs / "bus/pci/devices"
        self.sensors = Sensors(driver, self.bus)
        self.config = AgentConfig(paths=Paths(sysfs=str(host.sysfs)), probes=ProbeLimits(pcie=limits))

    def write(self, phy: int, **files: str) -> None:
        for name, text in files.items():
            (self._root / self.devices[phy] / name).write_text(text + "\n")

    def probe(self) -> Probe:
        made = pcie.make(self.config, self.sensors)
        assert made is not None
        return made


@pytest.fixture
def tree(host: SimHost) -> Tree:
    tree = Tree(host, PcieLimits(nonfatal=3))
    for phy in tree.devices:
        tree.write(phy, current_link_width="16", max_link_width="16")
        tree.write(phy, current_link_speed="16.0 GT/s PCIe", max_link_speed="16.0 GT/s PCIe")
        tree.write(phy, aer_dev_fatal="DLP 0\nTLP 7\nTOTAL_ERR_FATAL 7", aer_dev_nonfatal="TLP 2\nTOTAL_ERR_NONFATAL 2")
    return tree


async def test_errors_that_were_there_before_the_start_are_no_finding(tree: Tree) -> None:
    assert chips(await tree.probe().look()) == {("NW-PCIE-LINK", phy): False for phy in range(8)}


async def test_one_new_fatal_error_counts_and_non_fatal_ones_from_the_limit_on(tree: Tree) -> None:
    probe = tree.probe()
    await probe.look()
    tree.write(2, aer_dev_fatal="TLP 8\nTOTAL_ERR_FATAL 8")
    tree.write(3, aer_dev_nonfatal="TLP 4\nTOTAL_ERR_NONFATAL 4")
    assert [key for key, active in chips(await probe.look()).items() if active] == [("NW-PCIE-FATAL", 2)]
    tree.write(3, aer_dev_nonfatal="TLP 5")  # an older kernel gives no total
    active = [key for key, active in chips(await probe.look()).items() if active]
    assert active == [("NW-PCIE-FATAL", 2), ("NW-PCIE-NONFATAL", 3)]


@pytest.mark.parametrize(
    ("files", "slow"),
    [
        pytest.param({"current_link_width": "8"}, True, id="half the lanes"),
        pytest.param({"current_link_speed": "8.0 GT/s PCIe"}, True, id="half the speed"),
        pytest.param({"current_link_speed": "Unknown", "max_link_speed": "Unknown"}, False, id="no speed known"),
        pytest.param({"current_link_speed": "Unknown", "current_link_width": "8"}, True, id="half, speed away"),
    ],
)
async def test_a_link_below_its_best_is_told_at_the_second_look(tree: Tree, files: dict[str, str], slow: bool) -> None:
    probe = tree.probe()
    tree.write(5, **files)
    first, second = chips(await probe.look()), chips(await probe.look())
    assert first.get(("NW-PCIE-LINK", 5)) is (None if slow else False)
    assert second["NW-PCIE-LINK", 5] is slow
    assert second["NW-PCIE-LINK", 4] is False


@pytest.mark.parametrize("files", [{"current_link_speed": "Unknown"}, {"current_link_width": "63"}])
async def test_a_link_whose_state_is_not_told_is_unknown_and_ends_no_fault(tree: Tree, files: dict[str, str]) -> None:
    probe = tree.probe()
    tree.write(5, **files)
    seen = await probe.look()
    assert ("NW-PCIE-LINK", 5) not in chips(seen)
    assert chips(seen)["NW-PCIE-LINK", 4] is False
    ((name, value),) = files.items()
    assert f"{name} is {value}" in (seen.trouble or "")


async def test_a_counter_that_was_reset_is_counted_from_there(tree: Tree) -> None:
    probe = tree.probe()
    await probe.look()
    tree.write(2, aer_dev_fatal="TOTAL_ERR_FATAL 3")  # 7 before: the function has been reset
    assert not any(chips(await probe.look()).values())
    tree.write(2, aer_dev_fatal="TOTAL_ERR_FATAL 4")
    assert [key for key, active in chips(await probe.look()).items() if active] == [("NW-PCIE-FATAL", 2)]


async def test_links_that_are_all_alike_are_the_boards_design_until_one_was_ever_better(tree: Tree) -> None:
    for phy in tree.devices:
        tree.write(phy, current_link_width="8")
    probe = tree.probe()
    await probe.look()
    assert not any(chips(await probe.look()).values())
    tree.write(6, current_link_width="4")
    await probe.look()
    active = sorted(key for key, active in chips(await probe.look()).items() if active)
    assert active == [("NW-PCIE-LINK", phy) for phy in range(8)], "no longer alike: each should be what it can be"


async def test_what_a_link_has_ever_been_outlives_restart_and_reboot(tree: Tree) -> None:
    before = tree.probe()
    await before.look()
    for phy in tree.devices:  # every card came back from the reboot at half its width
        tree.write(phy, current_link_width="8")
    after = tree.probe()
    recall([after], remember([before]), now(), same_boot=False)
    await after.look()
    active = sorted(key for key, active in chips(await after.look()).items() if active)
    assert active == [("NW-PCIE-LINK", phy) for phy in range(8)]


async def test_errors_that_came_while_the_agent_was_away_are_new_and_those_of_another_boot_are_not(tree: Tree) -> None:
    before = tree.probe()
    await before.look()
    kept = remember([before])
    tree.write(2, aer_dev_fatal="TLP 8\nTOTAL_ERR_FATAL 8")
    after, rebooted = tree.probe(), tree.probe()
    recall([after], kept, now(), same_boot=True)
    recall([rebooted], kept, now(), same_boot=False)
    assert [key for key, active in chips(await after.look()).items() if active] == [("NW-PCIE-FATAL", 2)]
    assert not any(chips(await rebooted.look()).values())


async def test_a_counter_that_cannot_be_read_makes_that_chip_unknown_and_no_other(tree: Tree) -> None:
    probe = tree.probe()
    tree.write(1, aer_dev_fatal="rubbish")
    seen = await probe.look()
    assert seen.trouble is not None
    assert "rubbish" in seen.trouble
    assert {phy for _, phy in chips(seen)} == set(range(8)) - {1}


async def test_a_bus_that_cannot_be_read_is_unknown(tree: Tree) -> None:
    probe = tree.probe()
    tree.bus.npus = None
    with pytest.raises(CannotLook, match="PCI bus"):
        await probe.look()


def test_a_kernel_without_these_files_leaves_nothing_to_look_at(host: SimHost) -> None:
    tree = Tree(host, PcieLimits())
    for path in host.sysfs.glob("bus/pci/devices/*/*_link_*"):
        path.unlink()
    assert pcie.make(tree.config, tree.sensors) is None


# Processes.


@pytest.mark.parametrize(
    ("cgroup", "pod"),
    [
        (f"0::/kubepods/burstable/pod{POD}/0123abcd\n", POD),
        (f"0::/kubepods.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-01.scope\n", POD),
        (f"11:memory:/kubepods/pod{POD}/abc\n10:cpu:/kubepods/pod{POD}/abc\n", POD),
        (f"0::/../../pod{POD}/abc\n", POD),
        ("0::/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/1\n", "0123456789abcdef0123456789abcdef"),
        ("0::/system.slice/podman.service\n", None),
        ("0::/user.slice\n", None),
    ],
)
def test_the_pod_of_a_process(cgroup: str, pod: str | None) -> None:
    assert pod_of(cgroup) == pod


class Processes:
    """A /proc and a kubelet directory."""

    def __init__(self, directory: Path) -> None:
        self.procfs, self.pods = directory / "proc", directory / "kubelet/pods"
        (self.pods / POD).mkdir(parents=True)
        self.add(2, "kthreadd", cgroup="0::/\n")

    def add(self, pid: int, name: str, *devices: str, cgroup: str) -> None:
        fds = self.procfs / str(pid) / "fd"
        fds.mkdir(parents=True)
        (self.procfs / str(pid) / "comm").write_text(name + "\n")
        (self.procfs / str(pid) / "cgroup").write_text(cgroup)
        for number, device in enumerate(devices):
            (fds / str(number)).symlink_to(device)

    def probe(self) -> Probe:
        chips = NoDriver("")
        chips.enumeration = Enumeration({phy: ChipFacts((phy, 0), ChipIdentity(phy)) for phy in range(4)})
        config = AgentConfig(paths=Paths(kubelet_dir=str(self.pods.parent), procfs=str(self.procfs)))
        made = stale_process.make(config, Sensors(chips, PciBus(self.procfs)))
        assert made is not None
        return made


async def test_a_process_whose_pod_is_gone_is_stale_on_the_chips_it_holds(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.add(10, "serves", "/dev/davinci0", "/dev/davinci_manager", cgroup=f"0::/kubepods/pod{POD}/a\n")
    processes.add(11, "left over", "/dev/null", "/dev/davinci1", "/dev/davinci2", cgroup=f"0::/kubepods/pod{GONE}/a\n")
    processes.add(12, "npu-smi", "/dev/davinci3", cgroup="0::/system.slice/ssh.service\n")
    probe = processes.probe()
    assert chips(await probe.look()) == {("NW-STALE-PROCESS", phy): False for phy in (0, 3)}, "once may be an end"
    seen = await probe.look()
    assert [phy for (_, phy), active in chips(seen).items() if active] == [1, 2]
    assert (seen.chips or ())[1].evidence == {"pid 11": f"left over of pod {GONE}"}
    (processes.pods / GONE).mkdir()
    assert not any(chips(await probe.look()).values())


async def test_threads_that_outlive_the_first_of_their_process_still_hold_its_chips(tmp_path: Path) -> None:
    """The kernel has closed the files of a zombie, not those of its other threads."""
    processes = Processes(tmp_path)
    for pid, state in ((11, "Z (zombie)"), (12, "S (sleeping)")):
        processes.add(pid, "EngineCore", cgroup=f"0::/kubepods/pod{GONE}/a\n")
        process = processes.procfs / str(pid)
        (process / "status").write_text(f"Name:\tEngineCore\nUmask:\t0022\nState:\t{state}\n")
        for thread, device in ((pid, None), (pid + 10, f"/dev/davinci{pid - 10}")):
            (process / f"task/{thread}/fd").mkdir(parents=True)
            if device is not None:
                (process / f"task/{thread}/fd/3").symlink_to(device)
    probe = processes.probe()
    await probe.look()
    assert [phy for (_, phy), active in chips(await probe.look()).items() if active] == [1]


async def test_in_a_pid_namespace_of_its_own_the_agent_says_that_it_cannot_look(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    (processes.procfs / "2/comm").write_text("sh\n")
    with pytest.raises(CannotLook, match="hostPID"):
        await processes.probe().look()
