"""The three messages of config.proto, by hand: seven fields, for which generated code and its runtime would be 10 MB.

Source: Protocol Buffers encoding (tag = field number << 3 | wire type; 0 = varint, 1 = 8 bytes, 2 = length and bytes,
5 = 4 bytes; default values are left out, unknown fields are skipped, of a field given twice the last one counts).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SERVICE = "config.Config"
_FIXED = {1: 8, 5: 4}


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Who asks: jobID of its service, and what it is there."""

    job_id: str = ""
    role: str = ""

    def encode(self) -> bytes:
        return _text(1, self.job_id) + _text(2, self.role)

    @staticmethod
    def decode(raw: bytes) -> ClientInfo:
        """Raises ValueError."""
        found = dict(_fields(raw))
        return ClientInfo(_string(found.get(1)), _string(found.get(2)))


@dataclass(frozen=True, slots=True)
class Status:
    """code: 0 = registered."""

    code: int = 0
    info: str = ""

    def encode(self) -> bytes:
        return (b"\x08" + _varint(self.code) if self.code else b"") + _text(2, self.info)

    @staticmethod
    def decode(raw: bytes) -> Status:
        """Raises ValueError."""
        found = dict(_fields(raw))
        code = found.get(1, 0)
        if not isinstance(code, int):
            raise ValueError("field 1 is no number")
        return Status(code, _string(found.get(2)))


@dataclass(frozen=True, slots=True)
class RankTableStream:
    """One push: the whole global rank table as text."""

    job_id: str = ""
    rank_table: str = ""

    def encode(self) -> bytes:
        return _text(1, self.job_id) + _text(2, self.rank_table)

    @staticmethod
    def decode(raw: bytes) -> RankTableStream:
        """Raises ValueError."""
        found = dict(_fields(raw))
        return RankTableStream(_string(found.get(1)), _string(found.get(2)))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(number: int, value: str) -> bytes:
    raw = value.encode()
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw if raw else b""


def _string(value: int | bytes | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        raise ValueError("a text field holds a number")
    return value.decode()


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _read_varint(raw, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _read_varint(raw, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"field {number} has wire type {kind}")
        if at + size > len(raw):
            raise ValueError(f"field {number} ends behind the message")
        yield number, raw[at : at + size]
        at += size


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise ValueError("a number has no end")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
