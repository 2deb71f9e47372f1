"""Commands on the wire: what is written is read, and everything else is refused by one word and never read wrong."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.commands import (
    KINDS,
    MAX_COMMAND_BYTES,
    BadCommand,
    Body,
    Command,
    DrillStart,
    DrillStop,
    Peer,
    Peers,
    ReleaseSeparation,
    Reread,
    decode_command,
    encode_command,
)

BODIES: dict[str, Body] = {
    "peers": Peers((Peer("node-b", {0: "192.0.2.1", 7: "192.0.2.8"}),)),
    "reread": Reread("pod ml/p has Failed"),
    "release-separation": ReleaseSeparation(3, "80E18008", "swapped"),
    "drill-start": DrillStart("d1", 3, "80E18402", ttl_s=60, effect="real"),
    "drill-stop": DrillStop("d1"),
}


def message(**fields: Any) -> bytes:
    whole = {"v": 1, "id": "x", "kind": "reread", "node": "a", "expires_at": 1e9, "body": {}}
    return msgspec.json.encode({**whole, **fields})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_as_it_was_written(kind: str) -> None:
    command = Command("id", "a", 1e9, BODIES[kind])
    assert command.kind == kind
    assert decode_command(encode_command(command), node="a") == command


def test_fields_of_a_later_version_are_ignored() -> None:
    assert decode_command(message(weather="fine", body={"why": "x", "more": 1}), node="a").body == Reread("x")


def peer(address: str, node: str = "b") -> dict[str, Any]:
    return {"peers": [{"node": node, "addresses": {"0": address}}]}


BAD = {
    "no JSON": (b"\x00\xff", "malformed"),
    "nothing": (b"", "malformed"),
    "half": (message()[:30], "malformed"),
    "another schema": (message(v=2), "schema"),
    "for another node": (message(node="b"), "foreign-node"),
    "a kind of a later version": (message(kind="dance"), "unknown-kind"),
    "no id": (message(id=""), "malformed"),
    "no end": (message(expires_at=None), "malformed"),
    "no body where one is needed": (message(kind="release-separation"), "malformed"),
    "a chip that cannot be": (message(kind="release-separation", body={"chip": -1, "code": "X"}), "malformed"),
    "a drill without an end": (message(kind="drill-start", body={"drill": "d", "chip": 0, "code": "X"}), "malformed"),
    "a drill for ever": (
        message(kind="drill-start", body={"drill": "d", "chip": 0, "code": "X", "ttl_s": 1e9}),
        "malformed",
    ),
    "too many peers": (message(kind="peers", body={"peers": peer("192.0.2.1")["peers"] * 9}), "malformed"),
    "a peer without ports": (message(kind="peers", body={"peers": [{"node": "b", "addresses": {}}]}), "malformed"),
    "an option as an address": (message(kind="peers", body=peer("-s")), "malformed"),
    "a name as an address": (message(kind="peers", body=peer("example.org")), "malformed"),
    "an IPv6 address": (message(kind="peers", body=peer("2001:db8::1")), "malformed"),
    "everybody's address": (message(kind="peers", body=peer("0.0.0.0")), "malformed"),
    "too big": (message(body={"why": "x" * MAX_COMMAND_BYTES}), "malformed"),
}


@pytest.mark.parametrize(("raw", "reason"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_used_says_why_in_a_word(raw: bytes, reason: str) -> None:
    with pytest.raises(BadCommand) as refused:
        decode_command(raw, node="a")
    assert refused.value.reason == reason


@given(st.binary(max_size=300))
def test_no_bytes_are_anything_but_a_command_or_refused(raw: bytes) -> None:
    with pytest.raises(BadCommand):
        decode_command(raw, node="a")


@given(kind=st.sampled_from(sorted(KINDS)), cut=st.integers(min_value=0), flip=st.integers(min_value=0, max_value=255))
def test_a_damaged_command_is_refused_or_still_for_this_node(kind: str, cut: int, flip: int) -> None:
    raw = bytearray(encode_command(Command("id", "a", 1e9, BODIES[kind])))
    raw[cut % len(raw)] = flip
    try:
        read = decode_command(bytes(raw), node="a")
    except BadCommand:
        return
    assert read.node == "a"
