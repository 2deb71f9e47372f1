"""Fault codes as strings: one spelling for each fault, whichever of its two forms the driver used.

The driver reports some faults twice, as a black-box (BBOX) code and as a DMS code, and either form can be the only
one seen. The DMS form is kept. Source: the driver's dms_event_distribute_proc.c, which maps the two inside the kernel.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"[0-9A-F]{8,9}|NW-[A-Z0-9-]+")
_SWITCH_CODE = re.compile(r"\[0x[0-9a-f]{8},(\d+|na),(cpu|npu|l2|na),na\]", re.ASCII)
_SWITCH_CODE_CHARS = 50

_BBOX_OCCUR = {
    "A8028802": "80E01801",
    "A8028801": "80E18402",
    "A4028801": "80E18401",
    "A607FFFF": "80FA4E00",
    "A4025081": "8C0A4E00",
}
_BBOX_RESUME = {
    "98028802": "80E01801",
    "94025081": "8C0A4E00",
}

HBM_MULTI_BIT_ECC = "80E01801"
BUS_FAULTS = frozenset({"80C98009", "80CB8009"})
"""AIC and AIV bus access faults, which an HBM multi-bit ECC fault brings along."""


def canonical(code: str) -> str:
    """Upper case, and the DMS form where the code is the BBOX form of one; a switch code as MindCluster prints it."""
    if code.startswith("["):
        return _bare(code).replace(",l2,", ",L2,")
    code = code.upper()
    return _BBOX_OCCUR.get(code, code)


def resumed(code: str) -> str | None:
    """The code whose end this code announces, None for an ordinary one."""
    return _BBOX_RESUME.get(code.upper())


def is_code(value: object) -> bool:
    """Whether `value` is a fault code as configuration files spell them, in any case of letters."""
    return isinstance(value, str) and _CODE.fullmatch(value.upper()) is not None


def is_switch_code(value: object) -> bool:
    """Whether `value` is `[alarmId,faultId,peer,port]`, the code of a fault of the node's switch (A3).

    Source: MindCluster `SwitchFaultCode.json`; peer is a class of ports (cpu, npu, L2) or na, port is always na.
    """
    return (
        isinstance(value, str) and len(value) <= _SWITCH_CODE_CHARS and _SWITCH_CODE.fullmatch(_bare(value)) is not None
    )


def _bare(switch_code: str) -> str:
    return switch_code.replace(" ", "").lower()
