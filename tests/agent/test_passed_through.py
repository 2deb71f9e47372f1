"""An NPU that is bound to vfio belongs to a virtual machine: neither lost nor unknown, and named in the report."""

from pathlib import Path

import pytest

from agent.config import AgentConfig, Paths
from agent.detect.detector import Detector
from agent.detect.settings import DetectSettings
from agent.feed import feed
from agent.metrics import Metrics
from agent.probe import Sensors
from agent.probes import card_lost, chip_health
from agent.reporting import Context, Reporter
from agent.scan import scan
from agent.sensors.dcmi import DcmiSensor
from agent.sensors.pci import PciBus
from console.lab.host import SimHost
from shared import catalog
from shared.aio import now


def hand_over(host: SimHost, phy: int, driver: str = "vfio-pci") -> str:
    """As libvirt does it: the NPU driver loses the chip, the function stays on the bus under another driver."""
    address = host.state().device(phy).pci.address
    host.drop(phy)
    place = host.sysfs / "bus/pci/devices" / address
    place.mkdir()
    (place / "vendor").write_text("0x19e5\n")
    (place / "device").write_text("0xd802\n")
    (host.sysfs / "bus/pci/drivers" / driver).mkdir(parents=True)
    (place / "driver").symlink_to(Path("../../drivers") / driver)
    return address.upper()


@pytest.mark.parametrize(
    ("driver", "passed"),
    [("vfio-pci", True), ("pci-stub", True), ("xen-pciback", True), ("devdrv_device_driver", False)],
)
def test_the_driver_of_the_function_tells(host: SimHost, driver: str, passed: bool) -> None:
    address = hand_over(host, 3, driver)
    bus = PciBus(host.sysfs)
    npus = bus.look()
    assert npus is not None
    assert (address in bus.passed_through, address in npus, len(npus)) == (passed, not passed, 8 - passed)


async def test_a_chip_that_is_handed_over_while_the_agent_runs(host: SimHost, library: Path) -> None:
    bus = PciBus(host.sysfs)
    bus.look()
    sensor = DcmiSensor(library, bus=bus, metrics=Metrics(), call_timeout_s=5.0)
    sensors = Sensors(sensor, bus)
    detector = Detector(catalog.load(), DetectSettings())
    probes = (chip_health.make(AgentConfig(), sensors), card_lost.make(AgentConfig(), sensors))

    async def looks(rounds: int) -> None:
        for _ in range(rounds):
            for probe in probes:
                feed(detector, probe.name, await probe.look(), now())

    try:
        await looks(1)
        assert len(detector.view(now()).chips) == 8
        address = hand_over(host, 3)
        await looks(6)
        view = detector.view(now())
        assert (view.faults, view.unknown, len(view.chips)) == ((), (), 7)
        report = Reporter(node="n", boot_id="b", url=None).report(view, Context.of(sensors), (), now(), beat=True)
        assert report is not None
        assert report.machine.passed_through == (address,)
    finally:
        await sensor.close()


async def test_a_host_whose_npus_are_all_with_virtual_machines_is_not_blind(tmp_path: Path) -> None:
    """No NPU driver is loaded there, so there is no library to ask."""
    place = tmp_path / "bus/pci/devices/0000:c1:00.0"
    place.mkdir(parents=True)
    (place / "vendor").write_text("0x19e5\n")
    (place / "device").write_text("0xd802\n")
    (place / "driver").symlink_to("../../drivers/vfio-pci")
    nothing = str(tmp_path / "nothing")
    report = await scan(
        AgentConfig(
            paths=Paths(
                dcmi=nothing,
                npu_smi=nothing,
                hccn_tool=nothing,
                state_dir=nothing,
                config_dir=nothing,
                kubelet_dir=nothing,
                sysfs=str(tmp_path),
                kmsg=nothing,
            )
        )
    )
    assert "NW-MONITOR-BLIND@node" not in {fault.id for fault in report.faults}
    assert report.machine.passed_through == ("0000:C1:00.0",)
