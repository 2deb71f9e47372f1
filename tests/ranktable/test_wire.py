"""The three messages, byte for byte as Protocol Buffers has them, and whatever else may arrive."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.ranktable.wire import ClientInfo, RankTableStream, Status


@pytest.mark.parametrize(
    ("message", "raw"),
    [
        (ClientInfo("ab", "c"), b"\x0a\x02ab\x12\x01c"),
        (ClientInfo(), b""),
        (Status(0, "ok"), b"\x12\x02ok"),
        (Status(300, ""), b"\x08\xac\x02"),
        (RankTableStream("j", "x" * 300), b"\x0a\x01j\x12\xac\x02" + b"x" * 300),
    ],
)
def test_bytes(message: ClientInfo | Status | RankTableStream, raw: bytes) -> None:
    assert message.encode() == raw
    assert type(message).decode(raw) == message


@given(st.text(), st.text())
def test_there_and_back(job: str, text: str) -> None:
    assert ClientInfo.decode(ClientInfo(job, text).encode()) == ClientInfo(job, text)
    assert RankTableStream.decode(RankTableStream(job, text).encode()) == RankTableStream(job, text)


def test_fields_of_a_newer_version_are_skipped() -> None:
    newer = b"\x18\x05" + b"\x21" + b"12345678" + b"\x2d" + b"1234" + b"\x32\x01z"
    assert ClientInfo.decode(newer + ClientInfo("job").encode()) == ClientInfo("job")


@given(st.binary(max_size=40))
def test_nonsense_is_a_value_error_or_a_message(raw: bytes) -> None:
    for kind in (ClientInfo, Status, RankTableStream):
        with contextlib.suppress(ValueError):
            assert isinstance(kind.decode(raw), kind)
