"""`hccn_tool -optical -g`: the optical module of a port. Pure.

An absent module still prints its vendor. The LOS and LOL flags are latched and cleared by reading: one value that is
not 0 says that there was a loss since the last reading, by whomever. Thresholds are the module's own, as printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.records import Decoded
from agent.decode.text import ParseError, known, quoted, real

_PAIR = re.compile(r"\s*([^:]+?)\s*:\s*(.*)")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,8}")
_PRESENT = {"present": True, "not present": False}
ABSENT = "Optical module is not present"
"""All that some builds print, as an error on stdout or stderr."""


class Lane(msgspec.Struct, kw_only=True):
    """One lane; light in milliwatts, laser current in milliamperes, signal to noise in decibels."""

    lane: int
    tx_power_mw: float | None = None
    rx_power_mw: float | None = None
    tx_bias_ma: float | None = None
    host_snr_db: float | None = None
    media_snr_db: float | None = None


class Limits(msgspec.Struct, kw_only=True, frozen=True):
    """low, high."""

    low: float | None = None
    high: float | None = None


class Optical(Decoded, kw_only=True):
    """Flags have one bit for each lane."""

    present: bool | None = None
    temp_c: float | None = None
    vcc_mv: float | None = None
    vendor: str | None = None
    part: str | None = None
    serial: str | None = None
    identifier: str | None = None
    tx_los: int | None = None
    rx_los: int | None = None
    tx_lol: int | None = None
    rx_lol: int | None = None
    temp_c_limits: Limits = Limits()
    vcc_mv_limits: Limits = Limits()
    tx_power_mw_limits: Limits = Limits()
    rx_power_mw_limits: Limits = Limits()
    lanes: list[Lane] = msgspec.field(default_factory=list)


_LANE_VALUES = (
    ("Tx Power{}", "mW", "tx_power_mw"),
    ("Rx Power{}", "mW", "rx_power_mw"),
    ("Tx Bias{}", "mA", "tx_bias_ma"),
    ("Host SNR Lane{}", "dB", "host_snr_db"),
    ("Media SNR Lane{}", "dB", "media_snr_db"),
)
_LANE_KEY = re.compile(r"(?:[TR]x Power|Tx Bias|(?:Host|Media) SNR Lane)([0-9])")


def parse(lines: Sequence[str]) -> Optical:
    """Raises ParseError."""
    if any(ABSENT in line for line in lines):
        return Optical(present=False, lanes=[])
    pairs = [(found[1], found[2]) for line in lines if (found := _PAIR.fullmatch(line))]
    told = dict(pairs)
    modules = sum(key == "present" for key, _ in pairs)
    if modules != 1 or told["present"] not in _PRESENT:
        raise ParseError(f"{modules} optical modules in this text, expected one: {quoted(lines)}")
    answer = Optical(
        present=_PRESENT[told["present"]],
        temp_c=_value(told, "temperature", "C"),
        vcc_mv=_value(told, "Vcc", "mV"),
        vendor=known(told.get("vendor name")),
        part=known(told.get("vendor part number")),
        serial=known(told.get("vendor serial number")),
        identifier=known(told.get("xsfp identifier")),
        tx_los=_flag(told, "Tx Los Flag"),
        rx_los=_flag(told, "Rx Los Flag"),
        tx_lol=_flag(told, "Tx LoL Flag"),
        rx_lol=_flag(told, "Rx LoL Flag"),
        temp_c_limits=_limits(told, "Temp", "C"),
        vcc_mv_limits=_limits(told, "Vcc", "mV"),
        tx_power_mw_limits=_limits(told, "TxPower", "mW"),
        rx_power_mw_limits=_limits(told, "RxPower", "mW"),
        lanes=[],
    )
    numbers = sorted({int(key[1]) for name in told if (key := _LANE_KEY.fullmatch(name))})
    for number in numbers:
        values = {field: _value(told, key.format(number), unit) for key, unit, field in _LANE_VALUES}
        answer.lanes.append(Lane(lane=number, **values))
    return answer


def _value(found: dict[str, str], key: str, unit: str) -> float | None:
    number, separator, suffix = found.get(key, "").partition(" ")
    return real(number) if separator and suffix == unit else None


def _limits(found: dict[str, str], name: str, unit: str) -> Limits:
    low, high = (_value(found, f"{name} {side} Thres", unit) for side in ("Low", "High"))
    return Limits(low=low, high=high)


def _flag(found: dict[str, str], key: str) -> int | None:
    word = found.get(key, "")
    return int(word, 16) if _HEX.fullmatch(word) else None
