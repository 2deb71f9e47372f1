"""Two relations between answers: what is in one, and whether one is a correct part of another."""

from __future__ import annotations

from typing import Any

import msgspec

from agent.decode.records import Decoded

WHOLE = {"codes", "lane_mode", "lanes", "speed_gbps", "retry_count", "error_count"}
WHOLE |= {f"{way}_{what}" for way in ("tx", "rx") for what in ("packets", "bytes")}
"""Lists of values that mean something together only."""


def told(answer: Decoded) -> dict[str, Any]:
    """The answer without what is None or empty; tool and error aside."""
    values: dict[str, Any] = msgspec.to_builtins(answer)
    values.pop("tool")
    values.pop("error")
    return {key: value for key, value in _told(values).items() if value not in ([], {})}


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _told(one) for key, one in value.items() if one is not None}
        return {key: one for key, one in kept.items() if one != {}}
    return [_told(one) for one in value] if isinstance(value, list) else value


def wrong(part: Any, whole: Any, where: str = "") -> str | None:
    """The place where `part` says what `whole` does not say; None when it is a correct part."""
    if part is None or part == whole:
        return None
    if isinstance(part, dict) and isinstance(whole, dict):
        return next((bad for key in part if (bad := wrong(part[key], whole.get(key), f"{where}.{key}"))), None)
    if isinstance(part, list) and isinstance(whole, list) and len(part) <= len(whole):
        if part and where.rpartition(".")[2] in WHOLE and not isinstance(part[0], dict):
            return f"{where}: {part} is not all of {whole}"
        pairs = enumerate(zip(part, whole, strict=False))
        return next((bad for number, (a, b) in pairs if (bad := wrong(a, b, f"{where}[{number}]"))), None)
    return f"{where}: {part!r} is not in {whole!r}" if part not in ([], {}) else None
