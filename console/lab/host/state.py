"""The state file of a simulated NPU host: its types, how it is read and how it is written.

One JSON file is the whole truth of the host. `libdcmi.so`, `npu-smi` and `hccn_tool` read it again whenever it
changes, so an editor who changes a number by hand is obeyed. Unknown keys are errors here, because a misspelt
key in a drill means a fault that silently never happens. The chips themselves are in chip.py.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import field

from console.lab.host.chip import Device, Part

SCHEMA = 1
_NUMBERS = re.compile(r"\[\n([\s\d,.-]*)\n\s*\]")  # a list of numbers reads better on one line
EVENTS_KEPT = 256  # the size of the kernel's event table; the oldest falls out of it

Generation = Literal["310P", "910A", "910B", "A3", "950"]


class StateError(Exception):
    """The state file cannot be used; the message names the file and the field."""


class Match(Part, frozen=True):
    """Which chip a rule concerns. Every key that is given must agree; none given means every call."""

    card: int | None = None
    chip: int | None = None
    logic: int | None = None
    phy: int | None = None


class DriverRule(Part, frozen=True):
    """How one DCMI function misbehaves. `ret` None means that it only becomes slow or hangs."""

    ret: int | None = None
    delay_ms: int = 0
    hang: bool = False
    match: Match = Match()


class ToolRule(Part, frozen=True):
    """How one command of npu-smi or hccn_tool misbehaves.

    Without `stdout`, `stdout_file`, `stderr` and `rc` the command answers as usual, only later. `times` counts
    down in the file; at 0 the rule no longer applies.
    """

    delay_ms: int = 0
    hang: bool = False
    stdout: str | None = None
    stdout_file: str | None = None
    stderr: str | None = None
    rc: int | None = None
    times: int | None = None
    match: Match = Match()


class InitRule(Part, frozen=True):
    """What dcmi_init does: every npu-smi call and every new process pays for it. ret -8005 = no driver loaded."""

    ret: int = 0
    delay_ms: int = 20
    hang: bool = False


class Faults(Part, frozen=True):
    """Misbehaviour of the software, as opposed to that of the chips.

    Keys are DCMI function names, npu-smi subjects (`info`, `l`, `m` or what follows -t) and hccn_tool commands
    without their dash; `*` is every reading. `missing_symbols` takes effect when the library is installed again.
    """

    dcmi: dict[str, DriverRule | list[DriverRule]] = field(default_factory=dict)
    npu_smi: dict[str, ToolRule | list[ToolRule]] = field(default_factory=dict)
    hccn_tool: dict[str, ToolRule | list[ToolRule]] = field(default_factory=dict)
    init: InitRule = InitRule()
    missing_symbols: list[str] = field(default_factory=list)


class Host(Part, frozen=True):
    """What the tools find out about the machine around them."""

    root: bool = True
    container: bool = False
    privileged: bool = False
    install_complete: bool = True
    lang: Literal["en"] = "en"


class Event(Part, frozen=True):
    """A fault event of the driver. assertion: 0 recovered, 1 occurred, 2 one-off notice.

    The chip is named by `phy`; an event with `logic` alone is delivered with that number as it stands.
    """

    seq: int
    event_id: str
    phy: int | None = None
    logic: int | None = None
    severity: int = 3
    assertion: int = 1
    node_type: int = 0
    raised_ms: int = 0
    name: str = ""


class HostState(Part, frozen=True, kw_only=True):
    """The whole file."""

    schema: int = SCHEMA
    generation: Generation = "910B"
    driver: str = "25.5.1"
    dcmi: str = "25.5.1"
    npu_smi: str = "25.5.1"
    host: Host = Host()
    faults: Faults = Faults()
    devices: list[Device]
    events: list[Event] = field(default_factory=list)

    def device(self, phy: int) -> Device:
        """The chip with this physical id. Raises StateError naming the ids that exist."""
        for device in self.devices:
            if device.phy == phy:
                return device
        known = ", ".join(str(device.phy) for device in self.devices)
        raise StateError(f"no chip with physical id {phy}: this host has {known}")


def code_number(code: str) -> int:
    """The number behind a fault code as people write it, `80E01801` or `0x80e01801`. Raises StateError."""
    if not re.fullmatch(r"(0[xX])?[0-9A-Fa-f]{1,8}", code):
        raise StateError(f"malformed fault code {code!r}: expected up to 8 hexadecimal digits, such as 80E01801")
    return int(code, 16)


def load(path: Path) -> HostState:
    """Read and check the file. Raises StateError that says which field is wrong."""
    try:
        raw = path.read_bytes()
    except OSError as exc:
        raise StateError(f"cannot read state file {path}: {exc.strerror}") from exc
    try:
        state = msgspec.json.decode(raw, type=HostState)
    except msgspec.DecodeError as exc:
        raise StateError(f"bad state file {path}: {exc}") from exc
    return _checked(path, state)


def _checked(path: Path, state: HostState) -> HostState:
    if state.schema != SCHEMA:
        raise StateError(f"bad state file {path}: schema is {state.schema}, this version reads {SCHEMA}")
    seen: set[int] = set()
    for index, device in enumerate(state.devices):
        where = f"bad state file {path}: devices[{index}]"
        if device.phy in seen:
            raise StateError(f"{where}.phy: {device.phy} is used twice")
        seen.add(device.phy)
        for code in device.error_codes:
            try:
                code_number(code)
            except StateError as exc:
                raise StateError(f"{where}.error_codes: {exc}") from exc
    return state


def save(path: Path, state: HostState) -> None:
    """Replace the file in one step, so that a reader sees the old state or the new one and nothing between."""
    text = msgspec.json.format(msgspec.json.encode(state).decode(), indent=1)
    text = _NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text + "\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the state file, so that two changes at once both count.

    The lock is a file beside it: the state file itself is replaced at every change.
    """
    with open(path.with_name(path.name + ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
