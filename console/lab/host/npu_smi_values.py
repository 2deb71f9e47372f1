"""The values of one chip under `npu-smi info -t <type>`, as lines of `key : value`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from console.lab.host.chip import Device
from console.lab.host.driver import NOT_SUPPORTED, OK, Card, Driver, describe
from console.lab.host.state import HostState

HEALTH_WORDS = {0: "OK", 1: "Warning", 2: "Alarm", 3: "Critical"}
_COMPATIBILITY = {1: "OK", 2: "NOK"}
_HCCS_PACKETS = {"tx": 1_000_000, "rx": 2_000_000}


@dataclass(frozen=True, slots=True)
class Failed:
    """A reading failed with this return code."""

    ret: int


Lines = list[str]
Reader = Callable[[Driver, Device], Lines | Failed]


def pair(key: str, value: object) -> str:
    return f"\t{key:<30} : {value}"


def wide_pair(key: str, value: object) -> str:
    return f"\t{key:<40} : {value}"


def _health(driver: Driver, device: Device) -> Lines | Failed:
    ret, value = driver.health(device)
    if ret != OK and value != 0:  # with a value of 0 the tool takes the failure for good health
        return Failed(ret)
    return [pair("Health", HEALTH_WORDS.get(value, "UNKNOWN"))]


def chip_health(driver: Driver, device: Device, label: str = "Health Status") -> Lines | Failed:
    """Only this form shows codes, and only it calls a bad chip OK when no code is active."""
    ret, value = driver.health(device)
    if ret != OK:
        return Failed(ret)
    ret, codes = driver.codes(device)
    if ret != OK:
        return Failed(ret)
    word = "OK" if not codes and value in HEALTH_WORDS else HEALTH_WORDS.get(value, "UNKNOWN")
    lines = [pair(label, word), pair("Error Code", " ".join(codes) or "NA")]
    if not codes:
        return [*lines, pair("Error Information", "NA")]
    first, *others = map(describe, codes)
    return [*lines, pair("Error Information", first), *("\n" + pair("", other) for other in others)]


def _ecc(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_ecc_info", device)
    if ret != OK:
        return Failed(ret)
    kind = "HBM" if device.hbm.total else "DDR"
    labels = (
        "Single Bit Error Count",
        "Double Bit Error Count",
        "Single Bit Aggregate Total Err Cnt",
        "Double Bit Aggregate Total Err Cnt",
        "Single Bit Isolated Pages Count",
        "Double Bit Isolated Pages Count",
        "Single Bit Next-Isolated Pages Count",
        "Double Bit Next-Isolated Pages Count",
    )
    return [wide_pair(f"{kind} {label}", count) for label, count in zip(labels, device.ecc.hbm[1:], strict=True)]


def _usages(driver: Driver, device: Device) -> Lines | Failed:
    for function in ("dcmi_get_device_hbm_info", "dcmi_get_device_utilization_rate"):
        if (ret := driver.ask(function, device)) != OK:
            return Failed(ret)
    ddr, hbm, util = device.ddr, device.hbm, device.util
    return [
        pair("DDR Capacity(MB)", ddr.total),
        pair("DDR Usage Rate(%)", ddr.used * 100 // ddr.total if ddr.total else 0),
        pair("DDR Hugepages Total(page)", 0),
        pair("DDR Hugepages Usage Rate(%)", 0),
        pair("HBM Capacity(MB)", hbm.total),
        pair("HBM Usage Rate(%)", util.hbm),
        pair("Aicore Usage Rate(%)", util.aicore),
        pair("Aivector Usage Rate(%)", 0),
        pair("Aicpu Usage Rate(%)", util.aicpu),
        pair("Ctrlcpu Usage Rate(%)", util.ctrlcpu),
        pair("DDR Bandwidth Usage Rate(%)", 0),
        pair("HBM Bandwidth Usage Rate(%)", 0),
        pair("NPU Utilization(%)", 0),
        pair("Aicube Usage Rate(%)", 0),
    ]


def _common(driver: Driver, device: Device) -> Lines:
    """Here a getter that fails prints 0 and nothing else."""
    rated = driver.ask("dcmi_get_device_frequency", device) == OK
    busy = driver.ask("dcmi_get_device_utilization_rate", device) == OK
    warm = driver.ask("dcmi_get_device_temperature", device) == OK
    powered = driver.ask("dcmi_get_device_power_info", device) == OK
    ddr = device.ddr
    return [
        pair("Memory Usage Rate(%)", ddr.used * 100 // ddr.total if busy and ddr.total else 0),
        pair("HBM Usage Rate(%)", device.util.hbm if busy else 0),
        pair("Aicore Usage Rate(%)", device.util.aicore if busy else 0),
        pair("Aicore Freq(MHZ)", device.freq.aicore if rated else 0),
        pair("Aicore curFreq(MHZ)", device.freq.aicore if rated else 0),
        pair("Aicore Count", device.aicores),
        pair("Temperature(C)", device.temp if warm else 0),
        pair("NPU Real-time Power(W)", f"{device.power_dw / 10 if powered else 0:.1f}"),
    ]


def _temp(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_temperature", device)
    label = "Temperature (C)" if driver.state.generation == "950" else "NPU Temperature (C)"
    return [pair(label, device.temp)] if ret == OK else Failed(ret)


def _power(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_power_info", device)
    return [pair("NPU Real-time Power(W)", f"{device.power_dw / 10:.1f}")] if ret == OK else Failed(ret)


def _memory(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_hbm_info", device)
    if ret != OK:
        return Failed(ret)
    return [
        pair("DDR Capacity(MB)", device.ddr.total),
        pair("DDR Clock Speed(MHz)", 0),
        pair("HBM Capacity(MB)", device.hbm.total),
        pair("HBM Clock Speed(MHz)", device.freq.hbm),
        pair("HBM Temperature(C)", device.hbm.temp),
        pair("HBM Manufacturer ID", "0xFF"),
    ]


def _processes(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_resource_info", device)
    if ret != OK:
        return Failed(ret)
    lines = []
    for process in device.procs:
        if not process.name:
            lines.append("\tGet pid name failed.")
        lines.append(
            f"\tProcess id:{process.pid:<7} Process name:{process.name[:15]:<18}Process memory(MB):{process.mb}"
        )
    return lines or ["\tNo process in device."]


def _hccs(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_info", device)
    links = device.hccs
    if ret != OK or not links.lanes:
        return Failed(ret if ret != OK else NOT_SUPPORTED)
    healthy = links.pcs_status == 0 and links.hdlc == 3
    packets = {name: [base + i for i in range(1, len(links.lanes) + 1)] for name, base in _HCCS_PACKETS.items()}
    return [
        pair("hccs health status", "OK" if healthy else "NOK"),
        _columns("hccs lane mode", links.lanes),
        _columns("hccs link lane list", ["1111" if lanes == 4 else "0011" for lanes in links.lanes]),
        _columns("hccs link speed", [56 * lanes for lanes in links.lanes]),
        *(
            line
            for name, counts in packets.items()
            for line in (
                _columns(f"hccs {name} packets", counts),
                _columns(f"hccs {name} bytes", [20 * count for count in counts]),
            )
        ),
        _columns("hccs retry count", links.retry),
        _columns("hccs error count", links.crc),
        pair("hccs first error lane", "NA" if healthy else links.pcs_status >> 8 & 0xFF),
    ]


def _columns(key: str, values: list[int] | list[str]) -> str:
    return pair(key, "[" + "".join(f"{value:<21}" for value in values) + "]")


def _spod(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_info", device)
    if ret != OK or driver.state.generation != "A3":
        return Failed(ret if ret != OK else NOT_SUPPORTED)
    spod = device.spod
    return [
        pair("SDID", spod.sdid),
        pair("Super Pod Size", spod.size),
        pair("Super Pod ID", spod.pod),
        pair("Server Index", spod.server),
    ]


def _board(driver: Driver, device: Device) -> Lines | Failed:
    ret = driver.ask("dcmi_get_device_board_info", device)
    return _pci_part(device) if ret == OK else Failed(ret)


def _pci_part(device: Device) -> Lines:
    return [
        pair("PCIe Bus Info", device.pci.address.upper()),
        pair("Slot ID", device.slot),
        pair("Class ID", "NA"),
        pair("PCI Vendor ID", f"0x{device.pci.vendor.upper()}"),
        pair("PCI Device ID", f"0x{device.pci.device.upper()}"),
        pair("Subsystem Vendor ID", f"0x{device.pci.subvendor.upper()}"),
        pair("Subsystem Device ID", f"0x{device.pci.subdevice.upper()}"),
    ]


def card_board(state: HostState, card: Card) -> Lines:
    device = card.chips[0]
    serial = f"SN-LAB-{device.card:04d}"
    return [
        pair("Product Name", "NPU Warden Lab"),
        pair("Model", "NA"),
        pair("Manufacturer", "NA"),
        pair("Serial Number", serial),
        pair("Software Version", state.driver),
        pair("Firmware Version", device.firmware),
        pair("Compatibility", _COMPATIBILITY.get(device.compatibility, "NOT SUPPORT")),
        pair("Board ID", f"0x{device.board.board_id:02x}"),
        pair("PCB ID", "A"),
        pair("BOM ID", device.board.bom),
        *_pci_part(device),
        pair("Chip Count", len(card.chips)),
    ]


def chip_board(card: Card, device: Device) -> Lines:
    return [
        pair("NPU ID", card.id),
        pair("Chip ID", device.chip),
        pair("Chip Type", device.chip_type),
        pair("Chip Name", device.chip_name),
        pair("Chip Version", device.chip_ver),
        pair("Board ID", f"0x{device.board.board_id:02x}"),
        pair("PCB ID", "NA"),
        pair("BOM ID", device.board.bom),
        pair("VDie ID", " ".join(f"{word:08X}" for word in device.die.v)),
        pair("NDie ID", " ".join(f"{word:08X}" for word in device.die.n)),
        pair("Chip Position ID", device.chip),
        pair("PCIe Bus Info", device.pci.address.upper()),
        pair("Firmware Version", "NA"),
    ]


TYPES: Mapping[str, Reader] = {
    "health": _health,
    "board": _board,
    "ecc": _ecc,
    "usages": _usages,
    "common": _common,
    "temp": _temp,
    "power": _power,
    "memory": _memory,
    "proc-mem": _processes,
    "hccs": _hccs,
    "spod-info": _spod,
}
