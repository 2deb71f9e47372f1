"""Counters and gauges of chips as the driver gives them (dcmi_worker.py, `measure`), in units and with their unknowns.

A getter's return code comes before its value. One that this driver does not have, or does not permit, says nothing;
any other failure is a reason why the gauge is unknown.
"""

from __future__ import annotations

import sys
from typing import Protocol

import msgspec

from agent.detect.readings import ChipIdentity

U64_WORDS = 2
HCCS_LINKS = 16
MCU_INVALID = range(0x7FFD, 0x8000)
"""Temperatures that stand for "could not be read" and "absent"."""


class Gauge(msgspec.Struct, frozen=True):
    """One getter's structure as 32-bit words. `words` None: unknown when `why` says so, else this driver has none."""

    words: tuple[int, ...] | None = None
    why: str = ""


class Measured(msgspec.Struct, frozen=True):
    """The gauges of one chip, in the order of dcmi_worker.GAUGES; none of them when the chip could not be asked."""

    chip: ChipIdentity
    gauges: tuple[Gauge, ...] = ()
    why: str = ""

    @property
    def unknown(self) -> str:
        """Why something of it is not known; empty when nothing is missing."""
        return self.why or "; ".join(gauge.why for gauge in self.gauges if gauge.why)

    def words(self, index: int) -> tuple[int, ...] | None:
        return self.gauges[index].words if index < len(self.gauges) else None


class Gauges(Protocol):
    """Who can measure chips; raises nothing. None: the driver as a whole cannot be asked, chip_health says why."""

    async def measure(self, what: str) -> tuple[Measured, ...] | None: ...


class Ecc(msgspec.Struct, frozen=True):
    """struct dcmi_ecc_info of HBM: uncorrectable errors since ever, pages isolated for them."""

    uncorrectable: int
    isolated_pages: int


def ecc(words: tuple[int, ...] | None) -> Ecc | None:
    """Words: enable, single, double, total single, total double, isolated single, isolated double. Off = nothing."""
    if words is None or not words[0]:
        return None
    return Ecc(uncorrectable=words[4], isolated_pages=words[6])


def celsius(words: tuple[int, ...] | None) -> int | None:
    """dcmi_get_device_temperature, an int; what an absent sensor answers is no temperature."""
    return None if words is None or words[0] in MCU_INVALID else _signed(words[0])


def power_w(words: tuple[int, ...] | None) -> float | None:
    """dcmi_get_device_power_info, in 0.1 W."""
    return None if words is None else _signed(words[0]) / 10


def hbm_celsius(words: tuple[int, ...] | None) -> int | None:
    """struct dcmi_hbm_info: size u64, frequency, padding, usage u64, temperature. A chip without HBM has size 0."""
    return None if words is None or not any(words[:U64_WORDS]) else _signed(words[6])


def hccs_up(words: tuple[int, ...] | None) -> bool | None:
    """HCCS status: pcs_status 0 and hdlc_status 3, as npu-smi judges it; a single word is npu-smi's own verdict."""
    if words is None:
        return None
    return words == (0, 3) if len(words) > 1 else bool(words[0])


def hccs_crc_errors(words: tuple[int, ...] | None) -> int | None:
    """struct hccs_statistic_info_u64: sent, received, CRC errors and retries of 16 links each, as u64."""
    if words is None:
        return None
    return sum(_u64(words, index) for index in range(2 * HCCS_LINKS, 3 * HCCS_LINKS))


def percent(words: tuple[int, ...] | None) -> int | None:
    """dcmi_get_device_utilization_rate; what is no share of a hundred is no answer."""
    return words[0] if words and words[0] <= 100 else None


def version(words: tuple[int, ...] | None) -> str | None:
    """A version string of at most 64 bytes, ended by a 0. Bytes that are no text make it unknown."""
    if words is None:
        return None
    raw = b"".join(word.to_bytes(4, sys.byteorder) for word in words).split(b"\0", 1)[0].strip()
    return raw.decode("ascii") if raw.isascii() and raw else None


def fits(words: tuple[int, ...] | None) -> bool | None:
    """enum dcmi_device_compat, driver against firmware: 1 OK, 2 not OK; all else is not known."""
    return None if words is None else {1: True, 2: False}.get(words[0])


class UbPorts(msgspec.Struct, frozen=True):
    """UB ports of a 950 by number: without a link, and linked at a part of their width. `alone`: none has a link."""

    down: tuple[int, ...] = ()
    narrow: tuple[int, ...] = ()
    alone: bool = False


UB_NO_LINK, UB_NOT_NEEDED = 0, 3
UB_PORT_NARROW, UB_PORT_DOWN = 2, 3


def ub_ports(words: tuple[int, ...] | None) -> UbPorts | None:
    """struct dcmi_ub_port_link_status: 0 no port linked, 1 all, 2 some, 3 none needed; then 36 ports, each 0 not there,
    1 linked, 2 at a part of its width, 3 not linked. A chip that needs no links has none down."""
    if words is None:
        return None
    whole, *ports = words
    if whole == UB_NOT_NEEDED:
        return UbPorts()
    down, narrow = (tuple(n for n, is_ in enumerate(ports) if is_ == what) for what in (UB_PORT_DOWN, UB_PORT_NARROW))
    return UbPorts(down, narrow, alone=whole == UB_NO_LINK)


def _u64(words: tuple[int, ...], index: int) -> int:
    pair = words[2 * index : 2 * index + 2]
    low, high = pair if sys.byteorder == "little" else reversed(pair)
    return high << 32 | low


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
