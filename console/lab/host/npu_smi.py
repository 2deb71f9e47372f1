"""The stand-in for `npu-smi`: read-only queries, answered from the state file.

As the real one it writes everything, errors included, to standard output, ends with the low byte of the failing
return code, and starts the whole driver for every call.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from console.lab.host import npu_smi_table, npu_smi_types
from console.lab.host.chip import Device
from console.lab.host.driver import INNER, OCCUPIED, OK, Card, Driver, cards, state_path
from console.lab.host.npu_smi_types import BAD_USAGE, Output
from console.lab.host.state import StateError

_USAGE = "Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]\n"
_TOP_USAGE = "Usage: npu-smi <Command|-h|-v> [Options...]\n"


@dataclass(frozen=True, slots=True)
class _Query:
    """What was asked for: `subject` is info, l, m, or the type that follows -t."""

    subject: str
    card: int | None = None
    chip: int | None = None


class _UsageError(Exception):
    """A command line that npu-smi refuses; the message is its whole output."""


def run(arguments: list[str], state: Path | None) -> Output:
    """Answer one command line. Errors of the state file go to standard error, which the real tool never uses."""
    try:
        driver = Driver(state)
    except StateError as exc:
        print(f"npu-smi (lab): {exc}", file=sys.stderr)
        return _start_failed(INNER)
    if arguments == ["-v"]:
        return Output(f"npu-smi version: {driver.state.npu_smi}\n")
    try:
        return _answer(driver, _parse(arguments))
    except _UsageError as exc:
        return Output(str(exc), BAD_USAGE)


def _answer(driver: Driver, query: _Query) -> Output:
    device = next((d for d in driver.state.devices if d.card == query.card and d.chip == (query.chip or 0)), None)
    instead = driver.tool_rule("npu_smi", query.subject, device)
    if instead is not None:
        sys.stderr.write(instead.stderr)
        return Output(instead.stdout, instead.rc)
    ret = driver.start()
    if ret != OK:
        return _start_failed(ret)
    found = cards(driver.state)
    if query.subject == "info":
        return Output(npu_smi_table.render(driver, found))
    if query.subject in npu_smi_types.OVERVIEWS:
        return Output(npu_smi_types.OVERVIEWS[query.subject](driver.state, found))
    if query.subject not in npu_smi_types.KNOWN:
        raise _UsageError(f"Error parameter of -t\n{_USAGE}")
    card = _find_card(driver, found, query.card)
    return npu_smi_types.show(driver, card, query.subject, _find_chip(driver, card, query.chip))


def _find_card(driver: Driver, found: list[Card], number: int | None) -> Card:
    if driver.state.generation == "950":  # there -i is the logic id of a chip, and there are no chips of cards
        chips = [chip for card in found for chip in card.chips if chip.logic == number]
        found = [Card(chip.logic, (chip,)) for chip in chips]
    for card in found:
        if card.id == number and card.chips:
            return card
    raise _UsageError(f"Invalid card id.\nError parameter of -i\n{_USAGE}")


def _find_chip(driver: Driver, card: Card, number: int | None) -> Device | str | None:
    """The chip that -c names; "mcu" for the unit after the last one; None when the whole card was asked for."""
    if number is None or driver.state.generation == "950":
        return None
    for device in card.chips:
        if device.chip == number:
            return device
    if number == len(card.chips):
        return npu_smi_types.MCU
    raise _UsageError(f"Invalid chip id.\nError parameter of -c\n{_USAGE}")


def _parse(arguments: list[str]) -> _Query:
    if not arguments or arguments[0] != "info":
        raise _UsageError(_TOP_USAGE)
    options: dict[str, str] = {}
    rest = arguments[1:]
    if rest in (["-l"], ["-m"]):
        return _Query(rest[0][1:])
    while rest:
        name, *values = rest
        if name not in ("-t", "-i", "-c") or not values:
            raise _UsageError(_USAGE)
        options[name], rest = values[0], values[1:]
    if not options:
        return _Query("info")
    if "-t" not in options or "-i" not in options:
        raise _UsageError(_USAGE)
    return _Query(options["-t"], _number(options, "-i"), _number(options, "-c"))


def _number(options: dict[str, str], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not value.isdecimal():
        raise _UsageError(f"Error parameter of {name}\n{_USAGE}")
    return int(value)


def _start_failed(ret: int) -> Output:
    if ret == OCCUPIED:
        return Output(f"dcmi model initialized failed, because the device is used. ret is {ret}\n", ret & 0xFF)
    return Output(f"dcmi module initialize failed. ret is {ret}\n", ret & 0xFF)


def main() -> None:
    """Run as the program: print the answer and exit with its code."""
    output = run(sys.argv[1:], state_path())
    sys.stdout.write(output.text)
    sys.stdout.flush()
    sys.exit(output.rc)


if __name__ == "__main__":
    main()
