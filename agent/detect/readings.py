"""What sensors hand to detection: facts about one instant, without any judgement.

Absent values are None, never 0. A reading that could not be taken says so in `error`; the two never mix.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Assertion = Literal["occur", "recover", "once"]


class ChipIdentity(msgspec.Struct, frozen=True):
    """Who a chip is. `phy` is the physical id; `pci` is `0000:C1:00.0`; `die` the VDie id (identity across slots);
    `serial` its card's number, asked for where no die id can be had."""

    phy: int
    card: int | None = None
    chip: int | None = None
    logic: int | None = None
    pci: str | None = None
    die: str | None = None
    name: str | None = None
    serial: str | None = None


class ChipReading(msgspec.Struct, frozen=True):
    """One poll of one chip.

    error: None, or the driver's return code (-8005, -8012, ...; dcmi_interface_api.h) of the call that failed.
    hung: the call did not come back within its deadline (then `error` is None and nothing else is known).
    health: 0 ok, 1 warning, 2 alarm, 3 critical; None when unknown (also the driver's 0xFFFFFFFF).
    codes: active fault codes as upper-case strings of 8 digits; None when the list could not be read.
    """

    chip: ChipIdentity
    health: int | None = None
    codes: tuple[str, ...] | None = None
    error: int | None = None
    hung: bool = False
    why: str = ""


class DriverReading(msgspec.Struct, frozen=True):
    """One poll of the whole driver.

    silent: why the driver as a whole gave no answer (missing library, hung init, dead child); then `chips` is empty.
    chips: every chip of the enumeration, plus chips enumerated before whose calls now fail.
    fresh: the enumeration was made anew for this reading (a fresh child): a chip missing here has really gone.
    pci: PCI addresses of the NPUs on the bus, None when the bus could not be read.
    gaps: how many cards or chips the driver lists without saying which (they boot, are occupied or failed at init).
    passed_through: PCI addresses of NPUs that belong to a virtual machine now; they are in neither `pci` nor `chips`.
    expected: how many NPUs this kind of host has, those of virtual machines included; None = nobody has said.
    """

    chips: tuple[ChipReading, ...] = ()
    silent: str | None = None
    fresh: bool = True
    pci: frozenset[str] | None = None
    gaps: int = 0
    passed_through: frozenset[str] = frozenset()
    expected: int | None = None


class ChipEvent(msgspec.Struct, frozen=True):
    """One notification of the driver's subscription (dcmi_dms_fault_event).

    phy: physical id, already translated from the event's logic id. severity: 0 hint, 1 minor, 2 major, 3 critical.
    serial: notify_serial_num; a gap means that notifications were lost. name: the driver's text, for evidence only.
    """

    phy: int
    code: str
    assertion: Assertion
    severity: int | None = None
    serial: int | None = None
    name: str = ""


class LinkReading(msgspec.Struct, frozen=True):
    """What `hccn_tool -link -g` says of one chip's port: up, down, or why it could not be read."""

    phy: int
    up: bool | None
    why: str = ""


class ChipFinding(msgspec.Struct, frozen=True):
    """A finding about one chip, by physical id: a code of ours is active or not. One probe speaks for a code."""

    phy: int
    code: str
    active: bool
    evidence: dict[str, str] = {}


class NodeFinding(msgspec.Struct, frozen=True):
    """A finding about the host itself (kmsg, disk, NIC, ...): a code is active or not."""

    code: str
    active: bool
    level: str | None = None
    evidence: dict[str, str] = {}
