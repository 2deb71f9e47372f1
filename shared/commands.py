"""What the reconciler asks of an agent, and its wire form: JSON by msgspec, schema version first (docs/wire.md).

One entry of the stream `commands:<node>` has one field, `command`, with one Command. Each is addressed to one node, has
an id that is never used for anything else, and an end: what nobody has read by then is not wanted any more.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from shared.wire import WireError

COMMAND_VERSION = 1
COMMAND_FIELD = "command"
MAX_COMMAND_BYTES = 64 << 10
"""A command above this is refused unread: sixteen addresses of eight peers are 4 KiB."""
MAX_PEERS = 8

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
_LOOPBACK, _MULTICAST = 127, 224

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Chip = Annotated[int, Meta(ge=0, le=1023)]
Seconds = Annotated[float, Meta(gt=0, le=86400)]


class BadCommand(WireError):
    """The bytes are no command for this agent. `reason`: malformed, schema, foreign-node or unknown-kind."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Peer(msgspec.Struct, frozen=True):
    """Another NPU node, and the IPv4 addresses of its chips' ports by physical id."""

    node: Name
    addresses: Annotated[dict[Chip, str], Meta(min_length=1, max_length=64)]


class Peers(msgspec.Struct, frozen=True):
    """`peers`: whom to ping on the parameter plane until the command expires or the next list comes."""

    peers: Annotated[tuple[Peer, ...], Meta(max_length=MAX_PEERS)]


class Reread(msgspec.Struct, frozen=True):
    """`reread`: look at all chips now instead of at the next poll. why: for the log."""

    why: Annotated[str, Meta(max_length=1024)] = ""


class ReleaseSeparation(msgspec.Struct, frozen=True):
    """`release-separation`: an operator ends the manual separation of one code on one chip."""

    chip: Chip
    code: Name
    why: Annotated[str, Meta(max_length=1024)] = ""


class DrillStart(msgspec.Struct, frozen=True):
    """`drill-start`: the sensor of this node is to show `code` on `chip` as if the driver did, for `ttl_s` at most.

    effect: shadow = the reconciler only plans for it, real = it acts. severity: as the driver's, 0 hint to 3 critical.
    """

    drill: Name
    chip: Chip | Literal["node"]
    code: Name
    ttl_s: Seconds
    severity: Annotated[int, Meta(ge=0, le=3)] = 3
    effect: Literal["shadow", "real"] = "shadow"


class DrillStop(msgspec.Struct, frozen=True):
    """`drill-stop`: the sensor shows again what is there. A drill that has ended already is no error."""

    drill: Name


Body: TypeAlias = Peers | Reread | ReleaseSeparation | DrillStart | DrillStop
KINDS: dict[str, type[Peers] | type[Reread] | type[ReleaseSeparation] | type[DrillStart] | type[DrillStop]] = {
    "peers": Peers,
    "reread": Reread,
    "release-separation": ReleaseSeparation,
    "drill-start": DrillStart,
    "drill-stop": DrillStop,
}
_KIND_OF = {body: kind for kind, body in KINDS.items()}


class Command(msgspec.Struct, frozen=True):
    """expires_at: Unix time; an agent that reads it later leaves it undone."""

    id: str
    node: str
    expires_at: float
    body: Body

    @property
    def kind(self) -> str:
        return _KIND_OF[type(self.body)]


class _Head(msgspec.Struct):
    v: int


class _Wire(msgspec.Struct, frozen=True):
    v: int
    id: Name
    kind: str
    node: str
    expires_at: Annotated[float, Meta(ge=0, le=1e11)]
    body: msgspec.Raw = msgspec.Raw(b"{}")


def encode_command(command: Command) -> bytes:
    return msgspec.json.encode(
        {
            "v": COMMAND_VERSION,
            "id": command.id,
            "kind": command.kind,
            "node": command.node,
            "expires_at": command.expires_at,
            "body": command.body,
        }
    )


def decode_command(raw: bytes, *, node: str) -> Command:
    """The command for `node`; whether it has expired is for the caller to see. Raises BadCommand for all else."""
    if len(raw) > MAX_COMMAND_BYTES:
        raise BadCommand("malformed", f"{len(raw)} bytes, more than {MAX_COMMAND_BYTES}")
    version = _decoded(raw, _Head, "").v
    if version != COMMAND_VERSION:
        raise BadCommand("schema", f"v: schema version {version} is not {COMMAND_VERSION}, the one this version reads")
    said = _decoded(raw, _Wire, "")
    if said.node != node:
        raise BadCommand("foreign-node", f"node: the command in the stream of {node!r} is for {said.node!r}")
    kind = KINDS.get(said.kind)
    if kind is None:
        raise BadCommand("unknown-kind", f"kind: {said.kind[:40]!r} is none of {', '.join(KINDS)}")
    body: Body = _decoded(said.body, kind, "body: ")
    if isinstance(body, Peers):
        _check_addresses(body)
    return Command(said.id, said.node, said.expires_at, body)


def _decoded(raw: bytes | msgspec.Raw, kind: type[Any], where: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as exc:
        raise BadCommand("malformed", f"{where}{exc}") from exc
    except (UnicodeDecodeError, RecursionError) as exc:
        raise BadCommand("malformed", f"{where}not JSON text: {exc}") from exc


def _check_addresses(body: Peers) -> None:
    """They become arguments of a tool: nothing but an IPv4 address is one."""
    for peer in body.peers:
        for address in peer.addresses.values():
            if not is_ipv4(address):
                raise BadCommand("malformed", f"body: {address[:40]!r} of peer {peer.node} is no IPv4 address")


def is_ipv4(text: str) -> bool:
    """Whether this is the address of a port: one host's, in the usual spelling."""
    if _IPV4.fullmatch(text) is None:
        return False
    first = int(text.partition(".")[0])
    return 0 < first < _MULTICAST and first != _LOOPBACK
