"""`npu-smi info -t board`: versions, ids and the PCI address of a card, or with -c the die ids of a chip. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.decode.records import Chip, Chips
from agent.decode.text import ParseError, known, once, pairs, quoted, whole


class BoardChip(Chip, kw_only=True):
    """Ids are the tool's own words (`0x02`). With -c: type, version, dies; without: product, versions and PCI ids."""

    product: str | None = None
    npu_name: str | None = None
    model: str | None = None
    manufacturer: str | None = None
    serial: str | None = None
    software_version: str | None = None
    firmware_version: str | None = None
    compatibility: str | None = None
    chip_type: str | None = None
    chip_version: str | None = None
    board_id: str | None = None
    main_board_id: str | None = None
    pcb_id: str | None = None
    bom_id: str | None = None
    class_id: str | None = None
    pci_vendor_id: str | None = None
    pci_device_id: str | None = None
    subsystem_vendor_id: str | None = None
    subsystem_device_id: str | None = None
    vdie: str | None = None
    ndie: str | None = None
    ddie: str | None = None
    position: int | None = None
    chip_count: int | None = None


_WORDS = {
    "Product Name": "product",
    "NPU Name": "npu_name",
    "Chip Name": "name",
    "Model": "model",
    "Manufacturer": "manufacturer",
    "Serial Number": "serial",
    "Software Version": "software_version",
    "Firmware Version": "firmware_version",
    "Compatibility": "compatibility",
    "Chip Type": "chip_type",
    "Chip Version": "chip_version",
    "Board ID": "board_id",
    "Main Board ID": "main_board_id",
    "PCB ID": "pcb_id",
    "BOM ID": "bom_id",
    "PCIe Bus Info": "bus",
    "Class ID": "class_id",
    "PCI Vendor ID": "pci_vendor_id",
    "PCI Device ID": "pci_device_id",
    "Subsystem Vendor ID": "subsystem_vendor_id",
    "Subsystem Device ID": "subsystem_device_id",
    "VDie ID": "vdie",
    "NDie ID": "ndie",
    "DDie ID": "ddie",
}
_NUMBERS = {
    "NPU ID": "card",
    "Chip ID": "chip",
    "Slot ID": "slot",
    "Chip Position ID": "position",
    "Chip Count": "chip_count",
}
_ELSEWHERE = {"Total Count", "Health", "Health Status"}
"""Keys of other answers that share some of these."""


def parse(lines: Sequence[str]) -> Chips:
    """One chip. Raises ParseError."""
    keys = {key for key, _ in pairs(lines)}
    if not keys & _WORDS.keys() or keys & _ELSEWHERE:
        raise ParseError(f"no board in this text: {quoted(lines)}")
    chip = BoardChip()
    for key, value in once(pairs(lines)).items():
        if key in _WORDS:
            setattr(chip, _WORDS[key], known(value))
        elif key in _NUMBERS:
            setattr(chip, _NUMBERS[key], whole(value))
    if chip.bus is not None:
        chip.bus = chip.bus.upper()
    return Chips(chips=[chip])
