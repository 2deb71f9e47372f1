"""One look at this host without a daemon: what `npu-warden scan` prints."""

from __future__ import annotations

from pathlib import Path

from agent import probes
from agent.config import AgentConfig, node_name
from agent.detect.detector import Detector
from agent.fault_files import FaultFiles
from agent.feed import feed
from agent.host import open_host
from agent.metrics import Metrics
from agent.probe import CannotLook, Probe
from agent.reporting import Context, Reporter
from agent.sensors.kubelet import PodDevices
from shared import catalog
from shared.aio import now
from shared.model import NodeReport

LOOKS = 2


async def scan(config: AgentConfig) -> NodeReport:
    """Every probe once, in the form of a report; nothing is saved or sent.

    Debouncing needs more than one look: a card that has just vanished shows as unknown here, not yet as lost.
    """
    host = open_host(config, Metrics())
    detector = Detector(catalog.load(), config.debounce)
    detector.config(FaultFiles(Path(config.paths.config_dir)).changed(), now())
    pods = PodDevices(Path(config.paths.kubelet_dir))
    pods.refresh()
    try:
        for probe in probes.load(config, host.sensors):
            await _look(probe, detector)
    finally:
        await host.sensors.chips.close()
    context = Context(host.sensors.chips.enumeration, host.sensors.bus.generation, pods.pods)
    reporter = Reporter(node=node_name(config), boot_id=host.boot_id, url=None)
    report = reporter.report(detector.view(now()), context, detector.drain_events(), now(), beat=True)
    assert report is not None
    return report


async def _look(probe: Probe, detector: Detector) -> None:
    """A second time when it was in vain: detection believes in a blind driver after two looks only."""
    for _ in range(LOOKS):
        try:
            seen = await probe.look()
        except CannotLook as exc:
            detector.node_blind(probe.name, str(exc), now())
            return
        feed(detector, seen, now())
        if seen.partly is not None:
            detector.node_blind(probe.name, seen.partly, now())
        if seen.driver is None or seen.trouble is None:
            return
