"""The level lists of `faultCode.json` and `SwitchFaultCode.json`: which code has which level.

Both are JSON objects of lists of codes. In two lists of a file: the more serious one counts, as in MindCluster.
Keys, levels and forms of codes: MindCluster, Ascend device plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent.detect.codes import canonical, is_code, is_switch_code
from shared.catalog import Catalogue
from shared.model import FaultLevel

Tell = Callable[[str, str], None]
"""(key, why): a complaint about one entry."""

CHIP_LISTS = {
    "NotHandleFaultCodes": FaultLevel.NOT_HANDLE,
    "SubHealthFaultCodes": FaultLevel.SUB_HEALTH,
    "RestartRequestCodes": FaultLevel.RESTART_REQUEST,
    "RestartBusinessCodes": FaultLevel.RESTART_BUSINESS,
    "FreeRestartNPUCodes": FaultLevel.FREE_RESTART_NPU,
    "RestartNPUCodes": FaultLevel.RESTART_NPU,
    "PreSeparateNPUCodes": FaultLevel.PRE_SEPARATE_NPU,
    "SeparateNPUCodes": FaultLevel.SEPARATE_NPU,
    "NotHandleFaultNetworkCodes": FaultLevel.NOT_HANDLE,
    "SubHealthFaultNetworkCodes": FaultLevel.SUB_HEALTH,
    "PreSeparateNPUNetworkCodes": FaultLevel.PRE_SEPARATE_NPU,
    "SeparateNPUNetworkCodes": FaultLevel.SEPARATE_NPU,
}
SWITCH_LISTS = {
    "NotHandleFaultCodes": FaultLevel.NOT_HANDLE,
    "SubHealthFaultCodes": FaultLevel.SUB_HEALTH,
    "RestartRequestFaultCodes": FaultLevel.RESTART_REQUEST,
    "PreSeparateFaultCodes": FaultLevel.PRE_SEPARATE_NPU,
    "ResetFaultCodes": FaultLevel.SEPARATE_NPU,
    "SeparateFaultCodes": FaultLevel.SEPARATE_NPU,
}
"""MindCluster merges ResetFaultCodes into SeparateFaultCodes: nothing resets a switch."""

_NETWORK_LEVELS = frozenset(
    {FaultLevel.NOT_HANDLE, FaultLevel.SUB_HEALTH, FaultLevel.PRE_SEPARATE_NPU, FaultLevel.SEPARATE_NPU}
)


def chip_levels(raw: dict[str, Any], catalogue: Catalogue, tell: Tell) -> dict[str, tuple[FaultLevel, str]]:
    """Code -> level and key. A code of the chips' network can only have one of four levels."""

    def problem(code: Any, level: FaultLevel) -> str | None:
        if not is_code(code):
            return f"{code!r} is no fault code, skipped"
        if catalogue.is_network(canonical(code)) and level not in _NETWORK_LEVELS:
            return f"{code} concerns the chip's network, where {level.value} means nothing; skipped, it keeps its level"
        return None

    return _levels(raw, CHIP_LISTS, problem, tell)


def switch_levels(raw: dict[str, Any], tell: Tell) -> dict[str, tuple[FaultLevel, str]]:
    """Code -> level and key, for codes of the form `[alarmId,faultId,peer,port]`."""

    def problem(code: Any, _level: FaultLevel) -> str | None:
        if is_switch_code(code):
            return None
        return f"{code!r} is no switch fault code ([0x08520003,na,L2,na]), skipped"

    return _levels(raw, SWITCH_LISTS, problem, tell)


def _levels(
    raw: dict[str, Any],
    lists: Mapping[str, FaultLevel],
    problem: Callable[[Any, FaultLevel], str | None],
    tell: Tell,
) -> dict[str, tuple[FaultLevel, str]]:
    found: dict[str, tuple[FaultLevel, str]] = {}
    for key, codes in raw.items():
        level = lists.get(key)
        if level is None:
            tell(key, f"unknown list, skipped; known are {', '.join(lists)}")
            continue
        if not isinstance(codes, list):
            tell(key, "must be a list of codes, skipped")
            continue
        for place, code in enumerate(codes):
            why_not = problem(code, level)
            if why_not is not None:
                tell(f"{key}[{place}]", why_not)
            elif canonical(code) not in found or level > found[canonical(code)][0]:
                found[canonical(code)] = level, f"{key}[{place}]"
    return found
