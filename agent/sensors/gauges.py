"""Counters and gauges of chips as the driver gives them (dcmi_worker.py, `measure`), in units and with their unknowns.

A getter's return code comes before its value. One that this driver does not have, or does not permit, says nothing;
any other failure is a reason why the gauge is unknown.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from agent.detect.readings import ChipIdentity

U64_WORDS = 2
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
    """HCCS status: pcs_status 0 and hdlc_status 3, as npu-smi judges it."""
    return None if words is None else words[0] == 0 and words[1] == 3


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
