"""PCIe of every NPU: error counters of its function (AER), and whether its link is as wide and fast as it should be.

Source: sysfs, `aer_dev_fatal`, `aer_dev_nonfatal` (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats) and
`{current,max}_link_{width,speed}`. Counters count since boot, so only what is new counts. A link should be what it has
ever been on this host, or what the function can do; where all NPUs are alike below that and none was ever better, it is
the board's design and no fault. A kernel that keeps none of these files for its NPUs leaves nothing to look at.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from agent.config import AgentConfig
from agent.counting import Kept, Rising
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.own_thread import OwnThread
from agent.probe import CannotLook, Observation, Sensors, partly
from shared.aio import now
from shared.model import Instant

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
    def untold(self) -> list[str]:
        """What the function can do is known and what its link does is not: it is off, or down. Neither good nor bad."""
        return [
            f"current_link_{name} is {is_}"
            for name, (is_, best) in self.link.items()
            if _figure(is_) is None and _figure(best) is not None
        ]


class PcieMemory(msgspec.Struct, frozen=True):
    """errors: by code. best: `<address> width` and `<address> speed` -> the best that was ever seen there."""

    errors: dict[str, Kept]
    best: dict[str, str]


class Pcie:
    name = "pcie"
    timeout_s = 5.0

    def __init__(self, period_s: float, sensors: Sensors, devices: Path, *, nonfatal: int, window_s: float) -> None:
        self.period_s = period_s
        self._sensors, self._devices = sensors, devices
        began = time.monotonic()
        self._rising = {
            FATAL: Rising(window_s=window_s, limit=1, began=began),
            NONFATAL: Rising(window_s=window_s, limit=nonfatal, began=began),
        }
        self._slow = Streak(LOOKS)
        self._thread = OwnThread("the PCI functions in sysfs")
        self._best: dict[str, str] = {}

    async def look(self) -> Observation:
        npus = self._sensors.bus.npus
        if npus is None:
            raise CannotLook(f"the PCI bus cannot be read: {self._sensors.bus.error}")
        chips = {c.identity.pci: phy for phy, c in self._sensors.chips.enumeration.chips.items() if c.identity.pci}
        addresses = sorted(npus & chips.keys())
        functions, failed = await self._thread.run(lambda: read_functions(self._devices, addresses))
        findings: list[ChipFinding] = []
        slower = self._slower(functions)
        for address, function in functions.items():
            findings += self._judge(chips[address], address, function, slower[address], time.monotonic())
        failed += [f"{address}: {why}" for address, one in functions.items() for why in one.untold]
        return Observation(chips=tuple(findings), partly=partly(failed))

    def memory(self) -> Any:
        return PcieMemory({code: rising.memory(now()) for code, rising in self._rising.items()}, self._best)

    def recall(self, kept: bytes, at: Instant, *, same_boot: bool) -> None:
        before = msgspec.json.decode(kept, type=PcieMemory)
        self._best = before.best
        for code in before.errors.keys() & self._rising.keys():
            self._rising[code].recall(before.errors[code], at, same_boot=same_boot)

    def _slower(self, functions: dict[str, Function]) -> dict[str, dict[str, str]]:
        """For each function what of its link is below what it should be."""
        found: dict[str, dict[str, str]] = {address: {} for address in functions}
        for name in LINK_FILES:
            links = {address: one.link[name] for address, one in functions.items() if name in one.link}
            figures = {address: figure for address, (is_, _) in links.items() if (figure := _figure(is_)) is not None}
            for address, figure in figures.items():
                if figure > (_figure(self._best.get(f"{address} {name}", "")) or 0):
                    self._best[f"{address} {name}"] = links[address][0]
            alike = len(figures) > 1 and len(set(figures.values())) == 1
            for address, figure in figures.items():
                best, most = self._best[f"{address} {name}"], links[address][1]
                should = best if alike or (_figure(best) or 0) > (_figure(most) or 0) else most
                if figure < (_figure(should) or 0):
                    found[address][name] = f"{links[address][0]}, should be {should}"
        return found

    def _judge(
        self, phy: int, address: str, function: Function, slower: dict[str, str], mono: float
    ) -> Iterable[ChipFinding]:
        for code, total in function.errors.items():
            self._rising[code].see(address, total, mono)
            active = self._rising[code].judge(address, mono)
            if active is not None:
                evidence = {"pci": address, "since boot": str(total)} if active else {}
                yield ChipFinding(phy, code, active, evidence)
        if slower or (function.link and not function.untold):
            slow = self._slow.judge(address, bool(slower))
            if slow is not None:
                yield ChipFinding(phy, LINK, slow, {"pci": address, **slower} if slow else {})


def read_functions(devices: Path, addresses: Iterable[str]) -> tuple[dict[str, Function], list[str]]:
    """Functions by PCI address, and why others could not be read. Blocks: a link's state is asked of the device."""
    functions: dict[str, Function] = {}
    failed: list[str] = []
    for address in addresses:
        try:
            functions[address] = read_function(devices / address.lower())
        except (OSError, ValueError) as exc:
            failed.append(f"{address}: {exc}")
    return functions, failed


def read_function(device: Path) -> Function:
    """Raises OSError, ValueError: what is there must be readable."""
    errors = {code: total for code, name in COUNTERS.items() if (total := _total(device / name)) is not None}
    link: dict[str, tuple[str, str]] = {}
    for name in LINK_FILES:
        is_, best = (_text(device / f"{which}_link_{name}") for which in ("current", "max"))
        if is_ is not None and best is not None:
            link[name] = (is_, best)
    return Function(errors, link)


def _total(path: Path) -> int | None:
    """The line `TOTAL_ERR_FATAL 0`; older kernels have only the single counters, which add up to it."""
    text = _text(path)
    if text is None:
        return None
    counts = {key: _count(count) for key, _, count in (line.rpartition(" ") for line in text.splitlines())}
    if not counts:
        raise ValueError(f"{path.name} is empty")
    return next((count for key, count in counts.items() if key.startswith("TOTAL_ERR")), sum(counts.values()))


def _count(text: str) -> int:
    """A counter of the kernel. Raises ValueError."""
    count = int(text)
    if not 0 <= count < 1 << 56:  # several are added, and the sum is saved as 64 bits
        raise ValueError(f"{text[:40]} is no counter")
    return count


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
    return figure if 0 < figure < 63 or ("GT/s" in text and 0 < figure < 1000) else None


def make(config: AgentConfig, sensors: Sensors) -> Pcie | None:
    devices = Path(config.paths.sysfs) / "bus/pci/devices"
    names = [*COUNTERS.values(), *(f"current_link_{name}" for name in LINK_FILES)]
    npus = sensors.bus.npus or ()
    if npus and not any((devices / npu.lower() / name).exists() for npu in npus for name in names):
        return None
    limits = config.probes.pcie
    return Pcie(config.poll.host_s, sensors, devices, nonfatal=limits.nonfatal, window_s=limits.window_s)
