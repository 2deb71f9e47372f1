"""What a node's agent would say, said in its name: faster than an agent, and of faults that no stub library has."""

import json
import time

import msgspec

from shared.model import NODE, Fault, FaultLevel, NodeReport, fault_id
from shared.names import EVENTS_STREAM, report_key
from shared.wire import encode
from tests.integration.rig import HBM, Rig

CHIP = 3
NODE_CODE = "28000037"


def chip_fault(code: str = HBM, level: FaultLevel = FaultLevel.SEPARATE_NPU) -> Fault:
    """A confirmed fault of one chip."""
    return Fault(fault_id(code, CHIP), code, chip=CHIP, level=level, since=time.time(), confirmed=True)


def node_fault(level: FaultLevel = FaultLevel.SEPARATE_NPU) -> Fault:
    """A confirmed fault of the machine itself: it hits pods without NPUs, too."""
    return Fault(fault_id(NODE_CODE, NODE), NODE_CODE, chip=NODE, level=level, since=time.time(), confirmed=True)


def say(rig: Rig, node: str, *faults: Fault) -> NodeReport:
    """The node's open faults are these: the report, then the hint that there is one."""
    before = rig.reported(node)
    report = msgspec.structs.replace(before, seq=before.seq + 1, at=time.time(), faults=faults)
    rig.redis.set(report_key(node), encode(report), ex=3600)
    note = {"v": report.v, "node": node, "session": report.session, "seq": report.seq}
    rig.redis.xadd(EVENTS_STREAM, {"note": json.dumps(note)})
    return report
