"""What `npu-smi info -l`, `-m` and `-t <type>` print.

Without -c every type prints the card and then each of its chips, with the chip's id after its values (before them
in `common`); with -c the values alone. A chip whose reading fails says so in the first form with exit code 0, and in
the second with the low byte of the return code less 1000.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from console.lab.host.chip import Device
from console.lab.host.driver import NOT_SUPPORTED, Card, Driver
from console.lab.host.npu_smi_values import (
    TYPES,
    Failed,
    Lines,
    Reader,
    card_board,
    chip_board,
    chip_health,
    pair,
    wide_pair,
)
from console.lab.host.state import HostState

MCU = "mcu"
BAD_USAGE = 215  # the exit code for a bad card, chip, type or option
_UNSUPPORTED = frozenset({"flash", "p2p-enable", "pcie-err", "product", "sensors"})  # known to the tool, not here
_MCU_TEMP_C = 35
_GENERATIONS_WITH_MCU = ("910B", "A3")


@dataclass(frozen=True, slots=True)
class Output:
    """Standard output and exit code of one call."""

    text: str
    rc: int = 0


def show(driver: Driver, card: Card, subject: str, chip: Device | str | None) -> Output:
    """One type of a card, or of one chip of it (or its MCU)."""
    if subject in _UNSUPPORTED:
        return Output(f"This device does not support querying {subject}.\n")
    read = TYPES[subject]
    if chip is None and subject == "hccs":
        return Output("Must input parameter of chip id.\nUsage: npu-smi info -t hccs [Options...]\n", BAD_USAGE)
    if chip is None:
        return Output(_card(driver, card, subject, read))
    if isinstance(chip, str):
        return _mcu(subject)
    if subject == "common":
        return Output('Error parameter in querying chip info, type: "common".\n', BAD_USAGE)
    result = chip_health(driver, chip) if subject == "health" else read(driver, chip)
    if isinstance(result, Failed):
        if result.ret == NOT_SUPPORTED:
            return Output(f"This device does not support querying {subject}.\n")
        return Output(f'Failed to query "{subject}" result.\n', (result.ret - 1000) & 0xFF)
    if subject == "board":
        result = chip_board(card, chip)
    return Output("".join(f"{line}\n" for line in result))


def _card(driver: Driver, card: Card, subject: str, read: Reader) -> str:
    key = wide_pair if subject == "ecc" else pair
    lines = [key("NPU ID", card.id)]
    if subject == "board" and driver.state.generation == "950":
        return "\n".join([*lines, *card_board(driver.state, card)]) + "\n"
    if driver.state.generation == "950":
        result = (
            chip_health(driver, card.chips[0], label="Health") if subject == "health" else read(driver, card.chips[0])
        )
        return "\n".join([*lines, *(result if isinstance(result, list) else [_failed(card.chips[0])])]) + "\n"
    if subject == "board":
        return "\n".join([*lines, *card_board(driver.state, card)]) + "\n"
    lines += [key("Chip Count", len(card.chips)), ""]
    for device in card.chips:
        result = read(driver, device)
        identity = key("Chip ID", device.chip)
        if isinstance(result, Failed) and result.ret == NOT_SUPPORTED:
            return f"This device does not support querying {subject}.\n"
        if isinstance(result, Failed):
            lines += [identity, _failed(device), ""]
        elif subject == "common":
            lines += [identity, *result, ""]
        else:
            lines += [*result, identity, ""]
    if driver.state.generation in _GENERATIONS_WITH_MCU:
        lines += _MCU_PART.get(subject, [])
    return "\n".join(lines) + "\n"


def _failed(device: Device) -> str:
    return f"Failed to query npu chip: {device.chip} info."


_MCU_PART: Mapping[str, Lines] = {
    "health": [pair("Health", "OK"), pair("Chip Name", "MCU"), ""],
    "temp": [pair("NPU      (C)", _MCU_TEMP_C), pair("NA       (C)", 0), pair("Chip Name", "MCU"), ""],
    "common": [pair("Chip Name", "mcu"), pair("Temperature(C)", _MCU_TEMP_C)],
}


def _mcu(subject: str) -> Output:
    if subject != "health":
        return Output(f"This device does not support querying {subject}.\n")
    return Output(
        "\n".join([pair("Health Status", "OK"), pair("Error Code", "NA"), pair("Error Information", "NA")]) + "\n"
    )


def _list_cards(state: HostState, cards: list[Card]) -> str:
    if state.generation == "950":
        chips = [chip for card in cards for chip in card.chips]
        blocks = [
            [pair("NPU ID", chip.logic), pair("Product Name", "NPU Warden Lab"), pair("Serial Number", "NA"), ""]
            for chip in chips
        ]
        return "\n".join([pair("Total Count", len(chips)), "", *(line for block in blocks for line in block)]) + "\n"
    lines = [pair("Total Count", len(cards)), ""]
    for card in cards:
        lines += [pair("NPU ID", card.id), pair("Chip Count", len(card.chips)), ""]
    return "\n".join(lines) + "\n"


def _map_ids(state: HostState, cards: list[Card]) -> str:
    rows: list[list[object]] = []
    for card in cards:
        for device in card.chips:
            name = device.chip_name if state.generation == "A3" else f"{device.chip_type} {device.chip_name}"
            if state.generation == "950":
                rows.append([device.logic, device.slot, device.chip, device.phy, device.chip_name])
            elif state.generation == "A3":
                rows.append([card.id, device.chip, device.logic, device.phy, name])
            else:
                rows.append([card.id, device.chip, device.logic, name])
        if state.generation in _GENERATIONS_WITH_MCU:
            unknown = ["-", "-"] if state.generation == "A3" else ["-"]
            rows.append([card.id, len(card.chips), *unknown, f"{'Mcu':<30}"])
    titles = ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"]
    if state.generation == "A3":
        titles.insert(3, "Chip Phy-ID")
    elif state.generation == "950":
        titles = ["NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"]
    heading = " ".join(f"{title:<30}" for title in titles)
    body = (" ".join([*(f"{cell!s:<30}" for cell in row[:-1]), str(row[-1])]) for row in rows)
    return "\n".join(f"\t{line}" for line in (heading, *body)) + "\n"


KNOWN = frozenset(TYPES) | _UNSUPPORTED
OVERVIEWS: Mapping[str, Callable[[HostState, list[Card]], str]] = {"l": _list_cards, "m": _map_ids}
