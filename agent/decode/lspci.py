"""`lspci`, also with -D, -n or -nn: devices on the PCI bus. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.records import Decoded
from agent.decode.text import ParseError, quoted
from agent.sensors.pci import GENERATIONS, HUAWEI

_LINE = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:]+): (.+?)(?: \(rev ([0-9a-f]{2})\))?")
_IDS = re.compile(r"(?:^|\[)([0-9a-f]{4}):([0-9a-f]{4})(?:\]|$)")
_DEVICE = re.compile(r"Device ([0-9a-f]{4})$")
_VENDOR = "Huawei Technologies"

ENDS = re.compile(r"\(rev [0-9a-f]{2}\)$")


class PciDevice(msgspec.Struct, kw_only=True):
    """bus: `0000:3D:00.0`, domain included. generation: of Ascend NPUs, None for other devices. Ids are hex words."""

    bus: str
    kind: str
    text: str
    vendor_id: str | None = None
    device_id: str | None = None
    revision: str | None = None
    generation: str | None = None


class Bus(Decoded, kw_only=True):
    devices: list[PciDevice] = msgspec.field(default_factory=list)


def parse(lines: Sequence[str]) -> Bus:
    """Raises ParseError."""
    devices = [_device(found) for line in lines if (found := _LINE.fullmatch(line))]
    if not devices:
        raise ParseError(f"no PCI device in this text: {quoted(lines)}")
    return Bus(devices=devices)


def _device(found: re.Match[str]) -> PciDevice:
    text = found[4]
    device = PciDevice(bus=f"{found[1] or '0000'}:{found[2]}".upper(), kind=found[3], text=text, revision=found[5])
    if ids := _IDS.search(text):
        device.vendor_id, device.device_id = ids[1], ids[2]
    elif named := _DEVICE.search(text):
        device.device_id = named[1]
        device.vendor_id = f"{HUAWEI:04x}" if text.startswith(_VENDOR) else None
    if device.device_id is not None and device.vendor_id == f"{HUAWEI:04x}":
        device.generation = GENERATIONS.get(int(device.device_id, 16))
    return device
