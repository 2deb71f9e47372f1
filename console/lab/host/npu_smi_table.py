"""The overview that `npu-smi info` prints: one table of chips, one of processes.

Its widths differ by tool version and generation; its readers have to cope with all of them, so all are drawn here.
A getter that fails prints 0, and a chip that is not ready loses its first row: both as the real tool does it.
"""

from dataclasses import dataclass

from console.lab.host.chip import Device
from console.lab.host.driver import NOT_READY, OK, Card, Driver
from console.lab.host.npu_smi_values import HEALTH_WORDS
from console.lab.host.state import HostState

_PROCESSES_SHOWN = 8
_NAME_BYTES = 15
NOT_INSTALLED = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it."
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Widths in characters: of the first column, the health column, and within the third: power, temperature,
    the counts before their slash, and the whole of it."""

    first: int
    health: int
    title: int
    power: int
    temp: int
    used: int
    third: int
    number: int = 5

    def border(self, fill: str) -> str:
        return "+" + "+".join(fill * width for width in (self.first, self.health + 2, self.third)) + "+"

    def whole(self, fill: str) -> str:
        return "+" + fill * (self.first + self.health + self.third + 4) + "+"

    def row(self, first: str, second: str, third: str) -> str:
        return f"| {first:<{self.first - 1}}| {second:<{self.health}} | {third:<{self.third - 1}}|"

    def usage(self, used: int, total: int, width: int) -> str:
        return f"{used:<{width}}/ {total}"

    def third_column(self, power: str, temp: str, rest: str) -> str:
        return f"{power:<{self.power}} {temp:<{self.temp}} {rest}"


_NARROW = _Layout(first=22, health=13, title=31, power=11, temp=17, used=5, third=52)
_USUAL = _Layout(first=27, health=13, title=33, power=11, temp=17, used=5, third=52)
_WIDE = _Layout(first=27, health=13, title=44, power=20, temp=23, used=5, third=70)
_LATEST = _Layout(first=27, health=13, title=33, power=11, temp=17, used=6, third=53)
_310P = _Layout(first=31, health=15, title=49, power=12, temp=17, used=6, third=54, number=7)


def layout(state: HostState) -> _Layout:
    """The layout of this tool version; 26.0 was wider than those before and after it."""
    if state.generation == "310P":
        return _310P
    major, minor = ([*state.npu_smi.split("."), "0"])[:2]
    if major < "25":
        return _NARROW
    if major == "25":
        return _USUAL
    return _WIDE if (major, minor) == ("26", "0") else _LATEST


def render(driver: Driver, cards: list[Card]) -> str:
    """The whole text, given the cards that the start of the driver found."""
    state = driver.state
    form = layout(state)
    lines = [form.whole("-"), _title(state, form), *_chip_header(state, form)]
    for card in cards:
        for index, device in enumerate(card.chips):
            if index > 0:
                lines.append(form.whole("-"))
            lines.extend(_chip_rows(driver, form, card, device))
        if card.chips:
            lines.append(_separator(state, form, "="))
    lines.extend(_processes(driver, form, [card for card in cards if card.chips]))
    if not state.host.install_complete and not state.host.container:
        lines.append(NOT_INSTALLED)
    return "\n".join(lines) + "\n"


def _title(state: HostState, form: _Layout) -> str:
    text = f"{'npu-smi ' + state.npu_smi:<{form.title}}Version: {state.npu_smi}"
    return f"| {text:<{form.first + form.health + form.third + 3}}|"


def _separator(state: HostState, form: _Layout, fill: str) -> str:
    if state.generation != "950":
        return form.border(fill)
    return "+" + "+".join(fill * width for width in (8, 18, form.health + 2, form.third)) + "+"


def _chip_header(state: HostState, form: _Layout) -> list[str]:
    first = form.third_column("Power(W)", "Temp(C)", "Hugepages-Usage(page)")
    second = form.third_column("AICore(%)", "Memory-Usage(MB)", "HBM-Usage(MB)")
    if state.generation == "950":
        second = form.third_column("NPU Util(%)", "Memory-Usage(MB)", "HBM-Usage(MB)")
        rows = [
            f"| NPU ID | Name             | {'Health':<{form.health}} | {first:<{form.third - 1}}|",
            f"|        |                  | {'Bus-Id':<{form.health}} | {second:<{form.third - 1}}|",
        ]
    elif state.generation == "310P":
        rows = [
            form.row("NPU     Name", "Health", first),
            form.row("Chip    Device", "Bus-Id", f"{'AICore(%)':<{form.power}} Memory-Usage(MB)"),
        ]
    else:
        names = "Chip  Phy-ID" if state.generation == "A3" else "Chip"
        rows = [form.row("NPU   Name", "Health", first), form.row(names, "Bus-Id", second)]
    return [form.border("-"), *rows, _separator(state, form, "=")]


def _chip_rows(driver: Driver, form: _Layout, card: Card, device: Device) -> list[str]:
    state = driver.state
    ret, value = driver.health(device)
    word = HEALTH_WORDS.get(value, "UNKNOWN")
    power = f"{device.power_dw / 10:.1f}" if driver.ask("dcmi_get_device_power_info", device) == OK else "0.0"
    if state.generation == "310P":
        power = "NA"
    elif state.generation == "A3" and device.chip > 0:
        power = "-"
    temp = device.temp if driver.ask("dcmi_get_device_temperature", device) == OK else 0
    first = form.third_column(power, str(temp), form.usage(0, 0, form.used))
    aicore = device.util.aicore if driver.ask("dcmi_get_device_utilization_rate", device) == OK else 0
    hbm = device.hbm if driver.ask("dcmi_get_device_hbm_info", device) == OK else None
    ddr = form.usage(device.ddr.used, device.ddr.total, 5)
    on_chip = form.usage(hbm.used if hbm else 0, hbm.total if hbm else 0, form.used)
    second = form.third_column(str(aicore), ddr, on_chip)
    bus = device.pci.address.upper()
    if state.generation == "950":
        rows = [
            f"| {device.logic:<6} | {device.chip_name:<16} | {word:<{form.health}} | {first:<{form.third - 1}}|",
            f"|        |                  | {bus:<{form.health}} | {second:<{form.third - 1}}|",
        ]
    else:
        if state.generation == "310P":
            second = f"{aicore:<{form.power}} {ddr}"
        unit = f"{device.chip:<{form.number}}"
        if state.generation in ("A3", "310P"):
            unit = f"{unit} {device.phy}"
        name = f"{card.id:<{form.number}} {device.chip_name}"
        rows = [form.row(name, word, first), form.row(unit, bus, second)]
    return rows[1:] if ret == NOT_READY else rows


def _processes(driver: Driver, form: _Layout, cards: list[Card]) -> list[str]:
    first = "NPU ID" if driver.state.generation == "950" else f"{'NPU':<7} Chip"
    rest = form.third - 28
    border = form.border("=")
    titles = f"{'Process id':<{form.health}} | {'Process name':<24} | {'Process memory(MB)':<{rest}}"
    lines = [form.border("-"), f"| {first:<{form.first - 1}}| {titles}|", border]
    for card in cards:
        rows = []
        for device in card.chips:
            held = device.procs if driver.ask("dcmi_get_device_resource_info", device) == OK else []
            for process in held[:_PROCESSES_SHOWN]:
                ids = f"{card.id:<7} {device.chip}" if driver.state.generation != "950" else str(device.logic)
                rows.append(
                    f"| {ids:<{form.first - 1}}| {process.pid:<{form.health}} | {process.name[:_NAME_BYTES]:<24} | "
                    f"{process.mb:<{rest}}|"
                )
        if not rows:
            number = card.id if driver.state.generation != "950" else card.chips[0].logic
            text = f"No running processes found in NPU {number}"
            rows.append(f"| {text:<{form.first + form.health + form.third + 3}}|")
        lines.extend([*rows, border])
    return lines
