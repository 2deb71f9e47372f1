"""One look at this host without a daemon: what `npu-warden scan` prints."""

from __future__ import annotations

from pathlib import Path

from agent import probes
from agent.config import AgentConfig, node_name
from agent.detect.detector import Detector
from agent.fault_config import FaultConfig
from agent.feed import feed
from agent.host import open_host
from agent.metrics import Metrics
from agent.probe import Probe
from agent.reporting import Context, Reporter
from agent.runner import attempt
from shared import catalog
from shared.aio import now
from shared.model import NodeReport

LOOKS = 2


async def scan(config: AgentConfig) -> NodeReport:
    """Every probe once, in the form of a report; nothing is saved or sent.

    Debouncing needs more than one look: a card that has just vanished shows as unknown here, not yet as lost.
    """
    metrics = Metrics()
    host = open_host(config, metrics)
    detector = Detector(catalog.load(), config.debounce)
    files = FaultConfig(Path(config.paths.config_dir), detector, metrics)
    await files.refresh()
    firmware: str | None = None
    try:
        for probe in probes.load(config, host.sensors):
            firmware = await _look(probe, detector) or firmware
    finally:
        await host.sensors.chips.close()
    context = Context.of(host.sensors, firmware=firmware)
    reporter = Reporter(node=node_name(config), boot_id=host.boot_id, url=None)
    report = reporter.report(detector.view(now()), context, detector.drain_events(), now(), beat=True)
    assert report is not None
    return report


async def _look(probe: Probe, detector: Detector) -> str | None:
    """A second time when it was in vain: detection believes in a blind driver after two looks only. Returns the
    version of the firmware, if the probe has seen that."""
    for _ in range(LOOKS):
        seen, why = await attempt(probe)
        if seen is None:
            detector.node_blind(probe.name, why, now())
            return None
        feed(detector, probe.name, seen, now())
        if seen.partly is not None:
            detector.node_blind(probe.name, seen.partly, now())
        if seen.driver is None or seen.trouble is None:
            return seen.firmware
    return None
