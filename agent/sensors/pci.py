"""NPUs on the PCI bus, from sysfs: what is really plugged in, whatever the driver says."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

HUAWEI = 0x19E5
GENERATIONS = {
    0xD100: "310",
    0xD500: "310P",
    0xD801: "910A",
    0xD802: "910B",
    0xD803: "A3",
    0xD806: "950",
}
"""PCI device ids of NPUs; the product name tells nothing reliable (`910B3` is no A3)."""
PASSING_DRIVERS = ("vfio", "pci-stub", "xen-pciback")
"""A function bound to one of these (names begin so) belongs to a virtual machine: the NPU driver cannot know it."""


class Seen(msgspec.Struct, frozen=True):
    """One look at the bus. npus: None when it cannot be read, and `error` says why. generation: None without an NPU."""

    npus: frozenset[str] | None
    passed_through: frozenset[str] = frozenset()
    generation: str | None = None
    error: str | None = None


class PciBus:
    """Remembers the newest look at the bus, so that every poll of the driver can be compared with it."""

    def __init__(self, sysfs: Path) -> None:
        self._devices = sysfs / "bus/pci/devices"
        self.npus: frozenset[str] | None = None
        self.passed_through: frozenset[str] = frozenset()
        self.generation: str | None = None
        self.error: str | None = "not looked yet"

    def read(self) -> Seen:
        """What is there now. Blocks, and changes nothing here: for a thread."""
        try:
            found = {path.name.upper(): npu for path in self._devices.iterdir() if (npu := _npu(path))}
        except OSError as exc:
            return Seen(None, error=f"{self._devices}: {exc.strerror or exc}")
        passed = frozenset(address for address in found if _passed(self._devices / address.lower()))
        return Seen(frozenset(found) - passed, passed, next(iter(found.values()), None))

    def take(self, seen: Seen) -> frozenset[str] | None:
        """PCI addresses (`0000:C1:00.0`) of all NPUs that are this host's own; None when the bus cannot be read
        (`error` says why). Those of virtual machines are in `passed_through`."""
        self.npus, self.error = seen.npus, seen.error
        if seen.npus is not None:
            self.passed_through = seen.passed_through
            self.generation = seen.generation or self.generation
        return self.npus

    def look(self) -> frozenset[str] | None:
        return self.take(self.read())


def _passed(path: Path) -> bool:
    """Whether the function is bound to a driver that hands it to a guest."""
    try:
        return os.path.basename(os.readlink(path / "driver")).startswith(PASSING_DRIVERS)
    except OSError:  # bound to no driver
        return False


def _npu(path: Path) -> str | None:
    """The generation of an NPU, None for any other device."""
    try:
        vendor = int((path / "vendor").read_text(), 16)
        device = int((path / "device").read_text(), 16)
    except (OSError, ValueError):  # gone between listing and reading, or no number
        return None
    return GENERATIONS.get(device) if vendor == HUAWEI else None
