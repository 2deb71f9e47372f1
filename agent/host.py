"""What this host offers to look through: the driver library, else npu-smi, else nothing; hccn_tool; the PCI bus."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from agent.config import AgentConfig, Paths
from agent.metrics import Metrics
from agent.peer_book import PeerBook
from agent.pods import HeldChips
from agent.probe import ChipSource, NoDriver, Sensors
from agent.sensors import hccn, npu_smi
from agent.sensors.dcmi import DcmiSensor
from agent.sensors.dcmi_library import find_library
from agent.sensors.gauges import Gauges
from agent.sensors.kubelet import PodDevices
from agent.sensors.npu_smi_gauges import NpuSmiGauges
from agent.sensors.pci import PciBus
from agent.sensors.process import find_tool

log = logging.getLogger(__name__)

WITHOUT_PORTS = ("310", "310P")
"""Cards that have no network port of their own: hccn_tool has nothing to say of them, wherever it is installed."""


class Host(msgspec.Struct, frozen=True):
    """`library` is set when the chips are read through it: then events can be subscribed to as well."""

    sensors: Sensors
    library: Path | None
    boot_id: str


def open_host(config: AgentConfig, metrics: Metrics) -> Host:
    """Never fails: a host where nothing can be read is watched all the same, and reported blind."""
    paths = config.paths
    bus = PciBus(Path(paths.sysfs))
    bus.look()
    library = find_library(paths.dcmi)
    if paths.dcmi and library is None:
        log.error("paths.dcmi: there is no %s; falling back to npu-smi", paths.dcmi)
    portless = bus.generation in WITHOUT_PORTS
    tool = None if portless else find_tool(paths.hccn_tool, *hccn.PLACES)
    chips = _chips(library, paths, bus, metrics)
    sensors = Sensors(
        chips=chips,
        bus=bus,
        hccn=hccn.Hccn(tool, lock=_lock(paths, "hccn_tool.lock")) if tool else None,
        gauges=_gauges(chips),
        peers=PeerBook(),
        pods=HeldChips(PodDevices(Path(paths.kubelet_dir))),
    )
    nobody = f"nobody: a {bus.generation} has none" if portless else "nobody: no hccn_tool here"
    log.info("chips are read by %s, links by %s", sensors.chips.name, tool or nobody)
    return Host(sensors, library, boot_id(Path(paths.procfs)))


def _chips(library: Path | None, paths: Paths, bus: PciBus, metrics: Metrics) -> ChipSource:
    if library is not None:
        return DcmiSensor(library, bus=bus, metrics=metrics)
    tool = find_tool(paths.npu_smi, *npu_smi.PLACES)
    if tool is not None:
        log.warning("no libdcmi.so; chips are polled by %s: slower, and without events", tool)
        return npu_smi.NpuSmi(tool, bus=bus, lock=_lock(paths, "npu-smi.lock"))
    why = "neither libdcmi.so nor npu-smi was found: mount the driver directory, or set paths.dcmi or paths.npu_smi"
    log.error("%s; the node is reported blind", why)
    return NoDriver(why, bus)


def _gauges(chips: ChipSource) -> Gauges | None:
    if isinstance(chips, npu_smi.NpuSmi):
        return NpuSmiGauges(chips)
    return chips if isinstance(chips, DcmiSensor) else None


def _lock(paths: Paths, name: str) -> Path | None:
    """Beside the state; without a directory only this process keeps its own calls apart."""
    directory = Path(paths.state_dir)
    return directory / name if os.access(directory, os.W_OK) else None


def boot_id(procfs: Path) -> str:
    """The kernel's id of this boot; empty when it cannot be read."""
    try:
        return (procfs / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        log.error("boot id: %s", exc)
        return ""
