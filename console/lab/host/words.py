"""A simulated host in words: its chips, and a line for each rule by which its software misbehaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from console.lab.host.chip import Device
from console.lab.host.npu_smi_values import HEALTH_WORDS
from console.lab.host.state import DriverRule, Faults, Match, ToolRule

READINGS = "*"
CHIP_COLUMNS = ("CHIP", "CARD", "LOGIC", "PCI", "HEALTH", "CODES", "LINK", "CONDITION")


def chip_row(device: Device) -> tuple[object, ...]:
    """CHIP_COLUMNS of one chip."""
    health, codes = HEALTH_WORDS.get(device.health, str(device.health)), " ".join(device.error_codes)
    where = (device.phy, device.card, device.logic, device.pci.address)
    return *where, health, codes, device.net.link, condition(device)


def chip_text(device: Device) -> str:
    """The chip in one line; of one that is off the bus nothing else can be said."""
    if not device.enumerated:
        return condition(device)
    codes = " ".join(device.error_codes) or "none"
    word = HEALTH_WORDS.get(device.health, str(device.health))
    return f"health {word}, codes {codes}, link {device.net.link}, {condition(device)}"


def condition(device: Device) -> str:
    if not device.enumerated:
        return "off the bus"
    if not device.alive:
        return "does not answer"
    if device.occupied:
        return "occupied by another container"
    return "present" if device.boot_status == 16 else "booting"


def misbehaviour(faults: Faults) -> list[str]:
    """What the driver library and the tools do wrong now; empty when they do nothing wrong."""
    lines = [*_of(faults.dcmi, "DCMI"), *_of(faults.npu_smi, "npu-smi"), *_of(faults.hccn_tool, "hccn_tool")]
    if faults.init.hang:
        lines.append("dcmi_init hangs")
    if faults.init.ret:
        lines.append(f"dcmi_init returns {faults.init.ret}")
    if faults.missing_symbols:
        lines.append(f"the library lacks {', '.join(faults.missing_symbols)}")
    return lines


def _of(
    table: Mapping[str, DriverRule | list[DriverRule]] | Mapping[str, ToolRule | list[ToolRule]], whose: str
) -> Iterator[str]:
    for name, rules in table.items():
        what = f"every reading of {whose}" if name == READINGS else name if whose == "DCMI" else f"{whose} {name}"
        for rule in rules if isinstance(rules, list) else [rules]:
            yield f"{what}{_subject(rule.match)} {_verb(rule)}"


def _subject(match: Match) -> str:
    given = {key: value for key, value in msgspec.structs.asdict(match).items() if value is not None}
    if not given:
        return ""
    return f" for chip {given['phy']}" if set(given) == {"phy"} else f" for {_pairs(given)}"


def _verb(rule: DriverRule | ToolRule) -> str:
    if rule.hang:
        return "hangs"
    if isinstance(rule, DriverRule) and rule.ret is not None:
        return f"returns {rule.ret}" + (f" after {rule.delay_ms} ms" if rule.delay_ms else "")
    skipped = ("match", "hang")
    given = {k: v for k, v in msgspec.structs.asdict(rule).items() if k not in skipped and v not in (None, 0)}
    return f"answers otherwise ({_pairs(given)})" if given else "answers as usual"


def _pairs(given: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in given.items())
