"""The kernel log: /dev/kmsg, dmesg, or the kernel's lines of a syslog. Pure.

The codes are those of the kernel log probe: 40F84E00 for a card whose heartbeat is lost, NW-KMSG-... for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.records import Decoded
from agent.decode.text import ParseError, quoted, real, whole
from agent.sensors.kmsg_patterns import match

_KMSG = re.compile(r"[0-9]{1,4},[0-9]{1,20},(?P<us>[0-9]{1,15}),[^;]*;(?P<text>.*)")
_PRINTED = re.compile(r"(?:\[\s*(?P<s>[0-9]{1,12}\.[0-9]{1,9})\]\s?)(?P<text>.*)")
_DATED = re.compile(r"\[\w{3} \w{3} +[0-9]{1,2} [0-9:]{8} [0-9]{4}\]\s?(?P<text>.*)")
_DRIVER = re.compile(r"\[(?:ascend|fault_manager)\]")
_SYSLOG = re.compile(r".{0,200}?\bkernel(?:\[[^\]]*\])?(?::\s|\|)(?P<text>.*)")


class KernelRecord(msgspec.Struct, kw_only=True):
    """time_s: since boot, None where the log has a wall clock only. code: None for a line that means nothing known.

    device: the number that the Ascend driver gives the chip, where it is the chip that the code is about.
    """

    time_s: float | None = None
    code: str | None = None
    text: str
    device: int | None = None


class KernelLog(Decoded, kw_only=True):
    records: list[KernelRecord] = msgspec.field(default_factory=list)


def parse(lines: Sequence[str]) -> KernelLog:
    """Every line of the kernel. Raises ParseError when there is none."""
    records = [record for line in lines if (record := _record(line)) is not None]
    if not records:
        raise ParseError(f"no line of the kernel in this text: {quoted(lines)}")
    return KernelLog(records=records)


def _record(line: str) -> KernelRecord | None:
    time_s: float | None = None
    if kmsg := _KMSG.fullmatch(line):
        time_s, text = int(kmsg["us"]) / 1e6, kmsg["text"]
    elif dated := _DATED.fullmatch(line):
        text = dated["text"]
    else:
        text = line
        logged = None if line.startswith("[") else _SYSLOG.fullmatch(line)
        if logged:
            text = logged["text"]
        if printed := _PRINTED.fullmatch(text):
            time_s, text = real(printed["s"]), printed["text"]
        elif not logged and not _DRIVER.match(line):
            return None
    known = match(text)
    if known is None:
        return KernelRecord(time_s=time_s, text=text)
    code, found = known
    return KernelRecord(time_s=time_s, text=text, code=code, device=whole(found.groupdict().get("chip")))
