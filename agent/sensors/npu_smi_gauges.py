"""Gauges of chips on hosts without libdcmi.so, by npu-smi: same names and same words as dcmi_worker.GAUGES.

A getter that fails makes the tool print 0 with a good exit code. So an amount of 0 that a running chip cannot have is
unknown, and counters of a chip whose memory cannot be read are not believed. That also rules out the gauge of `work`:
an AICore use of 0 may be one that could not be read. Every call starts the whole driver, so what needs a call for each
chip is asked of a few of them at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from agent.decode import npu_smi_board, npu_smi_hccs
from agent.decode.npu_smi_chip import EccChip, EccCounters, parse_ecc
from agent.decode.npu_smi_hccs import HccsChip
from agent.decode.npu_smi_says import NOT_SUPPORTED, ToolSays
from agent.decode.records import Chip, Chips
from agent.decode.text import ParseError
from agent.detect.readings import ChipIdentity
from agent.sensors.gauges import HCCS_LINKS, Gauge, Measured
from agent.sensors.npu_smi import NpuSmi
from agent.sensors.process import ToolError

T = TypeVar("T", bound=Chip)

CHIPS_A_LOOK = 2
COMPATIBILITY = {"OK": 1, "NOK": 2, "NOT OK": 2}
NOT_HERE = Gauge()
FAILED_GETTER = "npu-smi prints 0 for it, as it does when it cannot read it"


class NpuSmiGauges:
    """Chips are those of the newest poll; nothing is measured while there is none."""

    def __init__(self, smi: NpuSmi) -> None:
        self._smi = smi
        self._turn = 0
        self._ecc: dict[int, EccCounters] = {}
        """The newest counters of each chip that were not all 0."""

    async def measure(self, what: str) -> tuple[Measured, ...] | None:
        """Every chip for `heat` and `versions`, for `ecc` and `hccs` the next few; nothing is known of other gauges."""
        chips = self._smi.rows
        if not chips:
            return None if not self._smi.enumeration.chips else ()
        if what == "heat":
            return tuple(Measured(who, heat(row)) for who, row in chips)
        if what == "versions":
            return tuple([await self._measured(who, row, self._versions) for who, row in chips])
        if what in ("ecc", "hccs"):
            self._turn += 1
            first = self._turn * CHIPS_A_LOOK % len(chips)
            asked = (*chips[first:], *chips[:first])[:CHIPS_A_LOOK]
            ask = self._hccs if what == "hccs" else self._ecc_of
            return tuple([await self._measured(who, row, ask) for who, row in asked])
        return tuple(Measured(who, (NOT_HERE,)) for who, _ in chips)

    async def _measured(
        self, who: ChipIdentity, row: Chip, ask: Callable[[ChipIdentity, Chip], Awaitable[tuple[Gauge, ...]]]
    ) -> Measured:
        try:
            return Measured(who, await ask(who, row))
        except ToolSays as exc:
            return Measured(who, (NOT_HERE,)) if exc.ret == NOT_SUPPORTED else Measured(who, why=f"npu-smi: {exc}")
        except (ToolError, ParseError) as exc:
            return Measured(who, why=f"npu-smi: {exc}")

    async def _versions(self, who: ChipIdentity, row: Chip) -> tuple[Gauge, ...]:
        """Compatibility and firmware of its card."""
        (board,) = npu_smi_board.parse(await self._smi.ask("info", "-t", "board", "-i", str(who.card))).chips
        fit = COMPATIBILITY.get(getattr(board, "compatibility", None) or "")
        firmware = getattr(board, "firmware_version", None)
        return (
            NOT_HERE if fit is None else Gauge((fit,)),
            NOT_HERE if firmware is None else Gauge(text_words(firmware)),
        )

    async def _ecc_of(self, who: ChipIdentity, row: Chip) -> tuple[Gauge, ...]:
        chip = self._only(parse_ecc(await self._smi.ask("info", "-t", "ecc", *self._where(who))), EccChip)
        counters = chip.hbm
        if counters is None:  # counters of DDR, or none
            return (NOT_HERE,)
        words = ecc_words(counters)
        if words is None:
            return (Gauge(why="npu-smi does not print all counters"),)
        if any(words[1:]):
            self._ecc[who.phy] = counters
        elif row.hbm_total_mb is None or who.phy in self._ecc:
            return (Gauge(why=f"ECC: {FAILED_GETTER}"),)
        return (Gauge(words),)

    async def _hccs(self, who: ChipIdentity, row: Chip) -> tuple[Gauge, ...]:
        where = ("-i", str(who.card), "-c", str(who.chip or 0))
        chip = self._only(npu_smi_hccs.parse(await self._smi.ask("info", "-t", "hccs", *where)), HccsChip)
        up = {"OK": 1, "NOK": 0}.get(chip.health or "")
        errors = chip.error_count
        return (
            Gauge(why=f"npu-smi prints HCCS health {chip.health}") if up is None else Gauge((up,)),
            NOT_HERE if errors is None else Gauge(hccs_counter_words(errors)),
        )

    def _where(self, who: ChipIdentity) -> tuple[str, ...]:
        return ("-i", str(who.card), *(() if who.chip is None else ("-c", str(who.chip))))

    def _only(self, answer: Chips, kind: type[T]) -> T:
        """Raises ParseError."""
        if len(answer.chips) != 1 or not isinstance(answer.chips[0], kind):
            said = answer.error.text if answer.error else f"{len(answer.chips)} chips, asked for one"
            raise ParseError(said)
        return answer.chips[0]


def heat(row: Chip) -> tuple[Gauge, ...]:
    """Temperature and power, as the table of the newest poll shows them; that of HBM is not in it."""
    celsius = Gauge(why=f"temperature: {FAILED_GETTER}") if row.temp_c is None else Gauge((row.temp_c,))
    deciwatts = NOT_HERE if row.power_w is None else Gauge((round(10 * row.power_w),))  # chip 1 of an A3 has none
    return celsius, deciwatts, NOT_HERE


def ecc_words(counters: EccCounters) -> tuple[int, ...] | None:
    """struct dcmi_ecc_info; the tool prints nothing where counting is off."""
    values = (
        *(counters.single_bit, counters.double_bit, counters.total_single_bit, counters.total_double_bit),
        *(counters.isolated_single_bit_pages, counters.isolated_double_bit_pages),
    )
    known = [value for value in values if value is not None]
    return (1, *known) if len(known) == len(values) else None


def hccs_counter_words(errors: Sequence[int]) -> tuple[int, ...]:
    """struct hccs_statistic_info_u64 with nothing but its CRC errors, as gauges.hccs_crc_errors reads it."""
    links = [*errors[:HCCS_LINKS], *[0] * (HCCS_LINKS - len(errors))]
    return tuple(_native([0] * 2 * HCCS_LINKS + links + [0] * HCCS_LINKS, 8))


def text_words(text: str) -> tuple[int, ...]:
    """As gauges.version reads it: at most 63 bytes and a 0."""
    raw = text.encode("ascii", "replace")[:63].ljust(64, b"\0")
    return tuple(int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, 64, 4))


def _native(values: Sequence[int], size: int) -> list[int]:
    """Numbers of `size` bytes as the 32-bit words that they are in memory."""
    raw = b"".join(value.to_bytes(size, sys.byteorder) for value in values)
    return [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw), 4)]
