"""Strategies that damage what was good: bytes cut, flipped and mixed, values of a JSON document replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, False, "", " ", "\x00", "\ud800", "\u0663", "80E18402", "node", -1, 0, 1, 16, 2**31, 2**63, 2**64,
        10**400, -(10**400), 0.5, -0.0, 1e308, float("inf"), float("nan"), [], {}, [[]], {"": None},
        "x" * 5000, "9" * 5000,
    ]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """`good` with one to three wounds; sometimes anything at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    raw = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        wound = draw(st.sampled_from(("cut", "flip", "insert", "drop", "repeat")))
        if wound == "cut":
            del raw[at:]
        elif wound == "flip" and raw:
            raw[at] ^= 1 << draw(st.integers(0, 7))
        elif wound == "insert":
            raw[at:at] = draw(
                st.one_of(st.binary(max_size=8), st.sampled_from((b"9" * 5000, b"[" * 3000, b"\n", b"\0")))
            )
        elif wound == "drop":
            del raw[at : at + draw(st.integers(1, 40))]
        else:
            raw[at:at] = raw[at : at + draw(st.integers(1, 40))]
    return bytes(raw)


@st.composite
def altered(draw: st.DrawFn, good: Any) -> bytes:
    """The JSON document `good` with one to three of its values replaced by strange ones, or its keys renamed."""
    document = json.loads(json.dumps(good))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        what = draw(st.sampled_from(("replace", "remove", "rename", "add")))
        if what == "remove":
            del holder[key]
        elif what == "rename" and isinstance(holder, dict):
            holder[draw(st.text(max_size=5))] = holder.pop(key)
        elif what == "add" and isinstance(holder, dict):
            holder[draw(st.sampled_from(("", "x", "\ud800", "EventId")))] = draw(STRANGE)
        else:
            holder[key] = draw(STRANGE)
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
