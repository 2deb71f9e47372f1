"""`npu-smi info -t health|ecc|usages|spod-info`: values of the chips of a card. Pure. Formats: the driver's npucli."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.decode.npu_smi_blocks import Block, Blocks, split
from agent.decode.npu_smi_table import health_word
from agent.decode.records import Chip, Chips, Problem
from agent.decode.text import ParseError, known, quoted, whole

_CODE = re.compile(r"[0-9A-Fa-f]{4,8}")
_UNSET = 2**32 - 1
_FAILED = "Failed to query npu chip"
"""Behind the id of a chip that could not be read; the exit code is 0."""


class HealthChip(Chip, kw_only=True):
    """texts: what the tool says of the codes, in its order."""

    texts: list[str] | None = None


class EccCounters(msgspec.Struct, kw_only=True):
    """Counts since the last reset of the counters (`total`: over the life of the chip); pages taken out of use."""

    single_bit: int | None = None
    double_bit: int | None = None
    total_single_bit: int | None = None
    total_double_bit: int | None = None
    isolated_single_bit_pages: int | None = None
    isolated_double_bit_pages: int | None = None
    next_isolated_single_bit_pages: int | None = None
    next_isolated_double_bit_pages: int | None = None


class EccChip(Chip, kw_only=True):
    """None = this kind of memory is not shown."""

    hbm: EccCounters | None = None
    ddr: EccCounters | None = None


class UsageChip(Chip, kw_only=True):
    """Rates in percent; memory is DDR."""

    memory_pct: int | None = None
    memory_bandwidth_pct: int | None = None
    hugepages_total: int | None = None
    hugepages_pct: int | None = None
    hbm_pct: int | None = None
    hbm_bandwidth_pct: int | None = None
    aivector_pct: int | None = None
    aicube_pct: int | None = None
    aicpu_pct: int | None = None
    ctrlcpu_pct: int | None = None
    npu_pct: int | None = None


class SpodChip(Chip, kw_only=True):
    """Where the chip is in its super pod; sdid is its address there."""

    sdid: int | None = None
    super_pod_size: int | None = None
    super_pod_id: int | None = None
    server_index: int | None = None
    chassis_id: int | None = None


_ECC = {
    "Single Bit Error Count": "single_bit",
    "Double Bit Error Count": "double_bit",
    "Single Bit Aggregate Total Err Cnt": "total_single_bit",
    "Double Bit Aggregate Total Err Cnt": "total_double_bit",
    "Single Bit Isolated Pages Count": "isolated_single_bit_pages",
    "Double Bit Isolated Pages Count": "isolated_double_bit_pages",
    "Single Bit Next-Isolated Pages Count": "next_isolated_single_bit_pages",
    "Double Bit Next-Isolated Pages Count": "next_isolated_double_bit_pages",
}
_USAGES = {
    "Aicore Usage Rate(%)": "aicore_pct",
    "Aivector Usage Rate(%)": "aivector_pct",
    "Aicube Usage Rate(%)": "aicube_pct",
    "Aicpu Usage Rate(%)": "aicpu_pct",
    "Ctrlcpu Usage Rate(%)": "ctrlcpu_pct",
    "NPU Utilization(%)": "npu_pct",
}
_DDR = {
    "DDR Usage Rate(%)": "memory_pct",
    "DDR Bandwidth Usage Rate(%)": "memory_bandwidth_pct",
    "DDR Hugepages Total(page)": "hugepages_total",
    "DDR Hugepages Usage Rate(%)": "hugepages_pct",
}
_HBM = {"HBM Usage Rate(%)": "hbm_pct", "HBM Bandwidth Usage Rate(%)": "hbm_bandwidth_pct"}
_SPOD = {
    "SDID": "sdid",
    "Super Pod Size": "super_pod_size",
    "Super Pod ID": "super_pod_id",
    "Server Index": "server_index",
    "Chassis ID": "chassis_id",
}


def parse_health(lines: Sequence[str]) -> Chips:
    """`-t health`, labels old (Health Status, with -c) and new. Without -c there are no codes. Raises ParseError."""
    found = split(lines)
    answer = _answer(found, lines, "health", "Health Status", "Health")
    for block in found.chips:
        answer.chips.append(
            HealthChip(
                card=found.card,
                chip=block.chip,
                health=health_word(block.get("Health Status", "Health")),
                codes=_codes(block.get("Error Code")),
                texts=_texts(block),
            )
        )
        if found.count is None and block.has("Health Status", "Health") and not block.has("Error Code"):
            answer.error = Problem("truncated", "npu-smi info -t health stops before its error codes")
    return answer


def parse_ecc(lines: Sequence[str]) -> Chips:
    """`-t ecc`: HBM, and on 910A and old versions DDR. Raises ParseError."""
    found = split(lines)
    answer = _answer(found, lines, "ecc", *(f"{kind} {key}" for kind in ("HBM", "DDR") for key in _ECC))
    for block in found.chips:
        hbm, ddr = (_counters(block, kind) for kind in ("HBM", "DDR"))
        answer.chips.append(EccChip(card=found.card, chip=block.chip, hbm=hbm, ddr=ddr))
    return answer


def parse_usages(lines: Sequence[str]) -> Chips:
    """`-t usages`. Of memory without a size nothing is known, whatever its rates print. Raises ParseError."""
    found = split(lines)
    answer = _answer(found, lines, "usages", "DDR Capacity(MB)", "HBM Capacity(MB)", *_USAGES)
    for block in found.chips:
        ddr_mb, hbm_mb = whole(block.get("DDR Capacity(MB)")) or None, whole(block.get("HBM Capacity(MB)")) or None
        values = _numbers(block, _USAGES) if ddr_mb or hbm_mb else {}
        values |= _numbers(block, _DDR) if ddr_mb else {}
        values |= _numbers(block, _HBM) if hbm_mb else {}
        chip = UsageChip(card=found.card, chip=block.chip, memory_total_mb=ddr_mb, hbm_total_mb=hbm_mb)
        answer.chips.append(msgspec.structs.replace(chip, **values))
    return answer


def parse_spod(lines: Sequence[str]) -> Chips:
    """`-t spod-info` (A3, 950). Raises ParseError."""
    found = split(lines)
    answer = _answer(found, lines, "spod-info", *_SPOD)
    for block in found.chips:
        values = {name: value for name, value in _numbers(block, _SPOD).items() if value != _UNSET}
        answer.chips.append(msgspec.structs.replace(SpodChip(card=found.card, chip=block.chip), **values))
    return answer


def _answer(found: Blocks, lines: Sequence[str], kind: str, *keys: str) -> Chips:
    """The empty answer. Raises ParseError unless one of the keys is there, or a card whose chips all failed."""
    keyed = any(block.has(*keys) for block in found.chips)
    failed = any(line.startswith(_FAILED) for line in lines)
    if not keyed and not failed and found.problem is None:
        raise ParseError(f"no {kind} in this text: {quoted(lines)}")
    return Chips(chips=[], error=found.problem)


def _numbers(block: Block, names: dict[str, str]) -> dict[str, int | None]:
    return {name: whole(block.get(key)) for key, name in names.items()}


def _counters(block: Block, kind: str) -> EccCounters | None:
    values = _numbers(block, {f"{kind} {key}": name for key, name in _ECC.items()})
    return EccCounters(**values) if any(value is not None for value in values.values()) else None


def _codes(value: str | None) -> list[str] | None:
    if value is None:
        return None
    if value == "NA":
        return []
    words = value.split()
    return [f"{int(word, 16):08X}" for word in words] if words and all(map(_CODE.fullmatch, words)) else None


def _texts(block: Block) -> list[str] | None:
    start = next((number for number, (key, _) in enumerate(block.values) if key == "Error Information"), None)
    if start is None:
        return None
    told = [block.values[start][1], *(value for key, value in block.values[start + 1 :] if key == "")]
    return [text for text in told if known(text)]
