"""The driver as a freshly started tool meets it: what is enumerated, what a chip answers, how it misbehaves.

npu-smi and hccn_tool start anew at every call, so they see the state file of this moment. The answers are those of
libdcmi.so (dcmi/*.c); return codes before values, and a value can be wrong when the code is not 0.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from console.lab.host.chip import Device
from console.lab.host.state import DriverRule, HostState, Match, StateError, ToolRule, load, locked, save

STATE_VARIABLE = "NPU_SIM_STATE"
READINGS = "*"
STARTED = 16

OK = 0
INNER = -8005
INVALID_ID = -8007
IOCTL = -8009
NOT_READY = -8012
OCCUPIED = -8020
NOT_SUPPORTED = -8255
ABSENT_HEALTH = 0xFFFFFFFF
UNREAD_HEALTH = 4

_HANG_POLL_S = 0.05
_Rule = TypeVar("_Rule", DriverRule, ToolRule)


@dataclass(frozen=True, slots=True)
class Card:
    """A card of the list: `id` -1 and no chips when it could not be set up."""

    id: int
    chips: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool prints instead of its work, because a rule of the state file says so."""

    stdout: str
    stderr: str
    rc: int


class Driver:
    """The state file as one run of a tool uses it. Waits and hangs where a rule says so."""

    def __init__(self, path: Path | None) -> None:
        """Raises StateError when there is no path or what is there cannot be used."""
        if path is None:
            raise StateError(f"no simulated host: set {STATE_VARIABLE} to its state file")
        self.path = path
        self.state = load(path)

    def tool_rule(self, tool: str, subject: str, device: Device | None) -> Answer | None:
        """Apply the rule of `tool` ("npu_smi", "hccn_tool") for this subject; None = go on as usual."""
        rule = _find_tool_rule(self.state, tool, subject, device)
        while rule is not None and rule.hang:
            self._wait_for_change()
            rule = _find_tool_rule(self.state, tool, subject, device)
        if rule is None:
            return None
        if rule.times is not None:
            self._count_down(tool, subject, device)
        time.sleep(rule.delay_ms / 1000)
        if (rule.stdout, rule.stdout_file, rule.stderr, rule.rc) == (None, None, None, None):
            return None
        stdout = Path(rule.stdout_file).read_text() if rule.stdout_file is not None else rule.stdout or ""
        return Answer(stdout, rule.stderr or "", rule.rc or 0)

    def start(self) -> int:
        """dcmi_init: its return code."""
        while self.state.faults.init.hang:
            self._wait_for_change()
        time.sleep(self.state.faults.init.delay_ms / 1000)
        if self.state.faults.init.ret != OK:
            return self.state.faults.init.ret
        if any(card.chips for card in cards(self.state)):
            return OK
        return OCCUPIED if any(device.occupied for device in self.state.devices) else INNER

    def ask(self, function: str, device: Device) -> int:
        """The return code of a reading of the chip, in its own time."""
        rule = _find_driver_rule(self.state, function, device)
        while rule is not None and rule.hang:
            self._wait_for_change()
            rule = _find_driver_rule(self.state, function, device)
        if rule is not None:
            time.sleep(rule.delay_ms / 1000)
            if rule.ret:
                return rule.ret
        if not device.present:
            return INVALID_ID
        return OCCUPIED if device.occupied else OK

    def health(self, device: Device) -> tuple[int, int]:
        """Return code and value of the health reading."""
        ret = self.ask("dcmi_get_device_health", device)
        if ret == INVALID_ID and not device.present:
            return OK, ABSENT_HEALTH
        if ret == OK and device.boot_status != STARTED:
            ret = NOT_READY
        if ret != OK:
            return ret, {IOCTL: 0, NOT_READY: ABSENT_HEALTH}.get(ret, UNREAD_HEALTH)
        return OK, 3 if device.comm_lost else device.health

    def codes(self, device: Device) -> tuple[int, list[str]]:
        """Return code and value of the error code reading."""
        ret = self.ask("dcmi_get_device_errorcode_v2", device)
        if ret in (INVALID_ID, OCCUPIED):
            ret = INNER
        return ret, [] if ret != OK else [code.upper().removeprefix("0X") for code in device.error_codes]

    def _wait_for_change(self) -> None:
        """One step of a hang. Like a process that is stuck in the kernel, take no signal but SIGKILL."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(_HANG_POLL_S)
        if not self.path.exists():
            sys.exit(f"the simulated host is gone: {self.path}")
        try:
            self.state = load(self.path)
        except StateError:
            return  # a half-written edit: what was true stays true

    def _count_down(self, tool: str, subject: str, device: Device | None) -> None:
        with locked(self.path):
            state = load(self.path)
            table = _tool_rules(state, tool)
            for name in (subject, READINGS):
                rules = _as_list(table[name]) if name in table else []
                for index, rule in enumerate(rules):
                    if rule.times and _agrees(rule.match, device):
                        rules[index] = replace(rule, times=rule.times - 1)
                        faults = replace(state.faults, **{tool: {**table, name: rules}})
                        save(self.path, replace(state, faults=faults))
                        return


def state_path() -> Path | None:
    """Where the environment says that the state file is."""
    path = os.environ.get(STATE_VARIABLE)
    return Path(path) if path else None


def cards(state: HostState) -> list[Card]:
    """The card list of a process that starts now.

    A card is listed when it is whole: a lone chip that is off the bus takes its card out of the list, a booting or
    occupied chip, or one of two dies missing, leaves a -1.
    """
    found = []
    for number in dict.fromkeys(device.card for device in state.devices):
        chips = tuple(device for device in state.devices if device.card == number)
        if not any(chip.enumerated for chip in chips):
            continue
        whole = all(chip.enumerated and not chip.occupied and chip.boot_status == STARTED for chip in chips)
        found.append(Card(number, chips) if whole else Card(-1, ()))
    return sorted(found, key=lambda card: card.id)


def describe(code: str) -> str:
    """A code in the driver's words when its text table does not know it."""
    number = int(code, 16)
    return f"node type=0x{number >> 17 & 0x7FF:x}, sensor type=0x{number >> 9 & 0xFF:x}, event={number & 0x1FF}"


def _agrees(match: Match, device: Device | None) -> bool:
    wanted = {name: value for name in match.__struct_fields__ if (value := getattr(match, name)) is not None}
    return all(device is not None and getattr(device, name) == value for name, value in wanted.items())


def _as_list(rules: _Rule | list[_Rule]) -> list[_Rule]:
    return list(rules) if isinstance(rules, list) else [rules]


def _tool_rules(state: HostState, tool: str) -> dict[str, ToolRule | list[ToolRule]]:
    return state.faults.npu_smi if tool == "npu_smi" else state.faults.hccn_tool


def _find_tool_rule(state: HostState, tool: str, subject: str, device: Device | None) -> ToolRule | None:
    table = _tool_rules(state, tool)
    rules = [rule for name in (subject, READINGS) if name in table for rule in _as_list(table[name])]
    return next((rule for rule in rules if rule.times != 0 and _agrees(rule.match, device)), None)


def _find_driver_rule(state: HostState, function: str, device: Device) -> DriverRule | None:
    table = state.faults.dcmi
    rules = [rule for name in (function, READINGS) if name in table for rule in _as_list(table[name])]
    return next((rule for rule in rules if _agrees(rule.match, device)), None)
