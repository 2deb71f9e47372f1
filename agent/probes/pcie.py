"""PCIe of every NPU: error counters of its function (AER), and whether its link has the width and speed it can have.

Source: sysfs, `aer_dev_fatal`, `aer_dev_nonfatal` (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats) and
`{current,max}_link_{width,speed}`. Counters count since boot, so only what is new counts. A kernel that keeps none of
these files for its NPUs leaves nothing to look at.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Recent, Streak
from agent.probe import CannotLook, Observation, Sensors, partly

LOOKS = 2
"""A link that is trained anew is slow for a moment."""
FATAL, NONFATAL, LINK = "NW-PCIE-FATAL", "NW-PCIE-NONFATAL", "NW-PCIE-LINK"
COUNTERS = {FATAL: "aer_dev_fatal", NONFATAL: "aer_dev_nonfatal"}
LINK_FILES = ("width", "speed")


class Function(msgspec.Struct, frozen=True):
    """What sysfs says of one PCI function; what it does not have is absent. link: (now, at best) of width and speed."""

    errors: dict[str, int] = {}
    link: dict[str, tuple[str, str]] = {}

    @property
    def slower(self) -> dict[str, str]:
        return {
            name: f"{now}, could be {best}"
            for name, (now, best) in self.link.items()
            if _figure(now) is not None and (_figure(now) or 0) < (_figure(best) or 0)
        }


class Pcie:
    name = "pcie"
    timeout_s = 5.0

    def __init__(self, period_s: float, sensors: Sensors, devices: Path, *, nonfatal: int, window_s: float) -> None:
        self.period_s = period_s
        self._sensors, self._devices = sensors, devices
        began = time.monotonic()
        self._recent = {
            FATAL: Recent(window_s=window_s, limit=1, began=began),
            NONFATAL: Recent(window_s=window_s, limit=nonfatal, began=began),
        }
        self._slow = Streak(LOOKS)
        self._counted: dict[tuple[str, str], int] = {}

    async def look(self) -> Observation:
        npus = self._sensors.bus.npus
        if npus is None:
            raise CannotLook(f"the PCI bus cannot be read: {self._sensors.bus.error}")
        chips = {c.identity.pci: phy for phy, c in self._sensors.chips.enumeration.chips.items() if c.identity.pci}
        findings: list[ChipFinding] = []
        failed: list[str] = []
        for address in sorted(npus & chips.keys()):
            try:
                function = read_function(self._devices / address.lower())
            except (OSError, ValueError) as exc:
                failed.append(f"{address}: {exc}")
                continue
            findings += self._judge(chips[address], address, function, time.monotonic())
        return Observation(chips=tuple(findings), partly=partly(failed))

    def _judge(self, phy: int, address: str, function: Function, mono: float) -> Iterable[ChipFinding]:
        for code, total in function.errors.items():
            new = total - self._counted.get((code, address), total)
            self._counted[code, address] = total
            if new > 0:
                self._recent[code].note(address, mono, new)
            active = self._recent[code].judge(address, mono)
            if active is not None:
                evidence = {"pci": address, "since boot": str(total)} if active else {}
                yield ChipFinding(phy, code, active, evidence)
        if function.link:
            slow = self._slow.judge(address, bool(function.slower))
            if slow is not None:
                yield ChipFinding(phy, LINK, slow, {"pci": address, **function.slower} if slow else {})


def read_function(device: Path) -> Function:
    """Raises OSError, ValueError: what is there must be readable."""
    errors = {code: total for code, name in COUNTERS.items() if (total := _total(device / name)) is not None}
    link: dict[str, tuple[str, str]] = {}
    for name in LINK_FILES:
        now, best = (_text(device / f"{which}_link_{name}") for which in ("current", "max"))
        if now is not None and best is not None:
            link[name] = (now, best)
    return Function(errors, link)


def _total(path: Path) -> int | None:
    """The line `TOTAL_ERR_FATAL 0`; older kernels have only the single counters, which add up to it."""
    text = _text(path)
    if text is None:
        return None
    counts = {key: int(count) for key, _, count in (line.rpartition(" ") for line in text.splitlines())}
    return next((count for key, count in counts.items() if key.startswith("TOTAL_ERR")), sum(counts.values()))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def _figure(text: str) -> float | None:
    """`16`, `16.0 GT/s PCIe`; a function that is off says `Unknown` or 0, 63 or 255 lanes."""
    try:
        figure = float(text.split()[0])
    except (ValueError, IndexError):
        return None
    return figure if 0 < figure < 63 or "GT/s" in text else None


def make(config: AgentConfig, sensors: Sensors) -> Pcie | None:
    devices = Path(config.paths.sysfs) / "bus/pci/devices"
    names = [*COUNTERS.values(), *(f"current_link_{name}" for name in LINK_FILES)]
    npus = sensors.bus.npus or ()
    if npus and not any((devices / npu.lower() / name).exists() for npu in npus for name in names):
        return None
    limits = config.probes.pcie
    return Pcie(config.poll.host_s, sensors, devices, nonfatal=limits.nonfatal, window_s=limits.window_s)
