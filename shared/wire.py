"""Bytes to model and back: JSON by msgspec, schema version first, unknown fields ignored."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shared.model import SCHEMA_VERSION, ChangeNote, NodeReport

M = TypeVar("M")

MAX_REPORT_BYTES = 1 << 20
"""A report above this is refused unread: no node of 16 chips comes near it."""


class WireError(ValueError):
    """The bytes are not a message we can use; the text says which field and why."""


class _Head(msgspec.Struct):
    v: int


_head = msgspec.json.Decoder(_Head)
_report = msgspec.json.Decoder(NodeReport)
_note = msgspec.json.Decoder(ChangeNote)
_encoder = msgspec.json.Encoder()


def encode(message: NodeReport | ChangeNote) -> bytes:
    return _encoder.encode(message)


def decode_report(raw: bytes, *, node: str) -> NodeReport:
    """Decode the value of `report:<node>`.

    Raises WireError for anything but a report of that very node in a schema we know: a report under another node's
    key is forged or misconfigured, and must not speak for it.
    """
    report = _decode(raw, _report)
    if report.node != node:
        raise WireError(f"node: the report under the key of {node!r} says it is from {report.node!r}")
    return report


def decode_note(raw: bytes) -> ChangeNote:
    """Decode the field `note` of one entry of the `events` stream. Raises WireError."""
    return _decode(raw, _note)


def _decode(raw: bytes, decoder: msgspec.json.Decoder[M]) -> M:
    if len(raw) > MAX_REPORT_BYTES:
        raise WireError(f"{len(raw)} bytes, more than {MAX_REPORT_BYTES}")
    try:
        version = _head.decode(raw).v
        if version != SCHEMA_VERSION:
            raise WireError(f"v: schema version {version} is not {SCHEMA_VERSION}, the one this version reads")
        return decoder.decode(raw)
    except msgspec.MsgspecError as exc:
        raise WireError(str(exc)) from exc
    except (UnicodeDecodeError, RecursionError) as exc:
        raise WireError(f"not JSON text: {exc}") from exc
