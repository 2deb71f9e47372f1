"""Whether a drill can show a code: asked before the request is written, in whose answer nobody would say it."""

from __future__ import annotations

import re

from agent.detect.codes import canonical, is_code
from console.drills import KINDS
from shared import catalog
from shared.names import CODE_MONITOR_BLIND

_HEX = re.compile("[0-9A-F]{8,9}")


def code_refused(code: str, kind: str) -> str:
    """Why a drill of this kind cannot show `code` on a chip, or nothing."""
    if KINDS[kind].of_node:
        return f"{kind} has none of its own to choose"
    shown = canonical(code)
    if not is_code(shown):
        return f"{code!r} is no fault code: 8 or 9 hexadecimal digits, or a name of the warden's such as NW-LINK-FLAP"
    if _HEX.fullmatch(shown):
        return ""
    if shown == CODE_MONITOR_BLIND:
        return f"{shown} is a fault of the node: the kind driver-hang shows it"
    return "" if catalog.load().lookup(shown) else f"{code!r}: the warden has no fault of this name"
