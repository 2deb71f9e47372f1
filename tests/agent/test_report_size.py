"""A report is written by every node every 15 s and read whole: it stays small."""

import uuid

from agent.detect.view import DetectView
from agent.reporting import Context, Reporter
from agent.sensors.worker import Enumeration
from shared.model import Chip, Instant, NodeReport, ProbeStatus
from shared.wire import encode

LIMIT_BYTES = 4096
CHIPS = 16


def reported(*probes: ProbeStatus) -> NodeReport:
    """A healthy node of sixteen dies, each held by a pod, with every identity known."""
    chips = tuple(
        Chip(
            phy=phy,
            health="ok",
            card=phy // 2,
            chip=phy % 2,
            logic=phy,
            pci=f"0000:{phy:02X}:00.0",
            die=" ".join(f"{0x10000000 + phy * 16 + i:08X}" for i in range(5)),
            name="Ascend910",
        )
        for phy in range(CHIPS)
    )
    view = DetectView((), (), chips, {})
    pods = {phy: (str(uuid.uuid4()),) for phy in range(CHIPS)}
    reporter = Reporter(node="node-with-a-long-name-1234", boot_id=str(uuid.uuid4()), url="http://10.20.30.40:9465")
    context = Context(Enumeration({}, driver="25.5.1"), "A3", pods, probes)
    report = reporter.report(view, context, (), Instant(1.0, 1_800_000_000.123), beat=True)
    assert report is not None
    return report


def test_a_healthy_node_of_sixteen_chips_fits_in_four_kilobytes() -> None:
    well = tuple(ProbeStatus(f"a_probe_of_some_name_{i}", 12.3, 0.123) for i in range(16))
    assert len(encode(reported(*well))) <= LIMIT_BYTES


def test_a_probe_in_trouble_is_in_the_report() -> None:
    bad = ProbeStatus("optical", 30.0, 5.0, "hccn_tool did not answer within 5 s")
    assert reported(ProbeStatus("pcie", 1.0, 0.1), bad).probes == (bad,)
