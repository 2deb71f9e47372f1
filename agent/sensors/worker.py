"""The parent's handle on one DCMI child (dcmi_worker.py): requests with a deadline for every single answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from agent.detect.readings import ChipIdentity, ChipReading
from agent.sensors import dcmi_codes
from agent.sensors.child import Child
from agent.sensors.gauges import Gauge, Measured

SCRIPT = Path(__file__).with_name("dcmi_worker.py")
STARVATION_S = (0.2, 0.8, 1.0, 1.0, 1.0, 1.0)
"""How much longer to wait for a child that is runnable, looking at it between."""
STOPPED_S = 0.1
"""A deadline that is noticed so late: this process itself was stopped, frozen or starved."""

Word = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
"""An `unsigned` of the library."""
Ref = tuple[int, int]
"""(card, device); on the Ascend950 (logic id, -1). (card, -1) stands for a whole card."""


class WorkerGone(Exception):
    """The child ended or talks nonsense; a new one may do better. `ref` as in WorkerHung."""

    def __init__(self, why: str, ref: Ref | None = None) -> None:
        super().__init__(why)
        self.ref = ref


class WorkerHung(Exception):
    """No answer within the deadline. `ref` is the chip asked last, None when it was no chip's turn."""

    def __init__(self, why: str, ref: Ref | None = None) -> None:
        super().__init__(why)
        self.ref = ref


class DriverRefused(Exception):
    """The library answered init or enumeration with an error; the text names call and code."""


class Line(msgspec.Struct):
    """Any line of the child; `kind` says which fields count."""

    kind: str
    ref: Ref = (-1, -1)
    ret: int = 0
    why: str = ""
    api: int = 0
    phy: int = -1
    logic: int | None = None
    card: int | None = None
    chip: int | None = None
    pci: str | None = None
    die: str | None = None
    name: str | None = None
    ip: str | None = None
    sdid: int | None = None
    super_pod: int | None = None
    absent: int = 0
    driver: str | None = None
    health: tuple[int, Word] = (0, 0)
    codes: tuple[int, tuple[Word, ...]] = (0, ())
    gauges: tuple[tuple[int, tuple[int, ...]], ...] = ()


class ChipFacts(msgspec.Struct, frozen=True):
    """What an enumeration tells of one chip besides its identity."""

    ref: Ref
    identity: ChipIdentity
    ip: str | None = None
    sdid: int | None = None
    super_pod: int | None = None


class Enumeration(msgspec.Struct, frozen=True):
    """chips by physical id; `gaps`: cards or chips that are listed and cannot be named (booting, occupied, failing)."""

    chips: Mapping[int, ChipFacts]
    gaps: int = 0
    driver: str | None = None


_decoder = msgspec.json.Decoder(Line)


class Worker:
    """One child after a successful init."""

    def __init__(self, child: Child, *, call_timeout_s: float) -> None:
        self.child = child
        self._call_timeout_s = call_timeout_s

    @property
    def _speaker(self) -> str:
        return f"the DCMI child (pid {self.child.pid})"

    async def begin(self, init_timeout_s: float) -> None:
        """Wait for the library's init. Raises WorkerHung, WorkerGone, DriverRefused."""
        ready = await self._line(init_timeout_s, "the library's init")
        if ready.ret == dcmi_codes.OK:
            return
        call = f"{ready.why} answered" if ready.api else f"loading failed: {ready.why}:"
        raise DriverRefused(f"{call} {dcmi_codes.say(ready.ret)}")

    async def enumerate(self, skip: Iterable[Ref], timeout_s: float) -> Enumeration:
        """All chips but those in `skip`. `timeout_s` for each chip: several calls stand behind one line."""
        self.child.send(" ".join(["enumerate", *(f"{card},{device}" for card, device in skip)]))
        chips: dict[int, ChipFacts] = {}
        gaps, ref = 0, None
        while True:
            line = await self._line(timeout_s, "enumeration", ref)
            if line.kind == "at":
                ref = line.ref
            elif line.kind == "chip" and line.phy >= 0:
                if line.phy in chips:
                    first, second = chips[line.phy].ref, line.ref
                    raise DriverRefused(f"chips {first} and {second} both say that they are physical id {line.phy}")
                chips[line.phy] = _facts(line)
            elif line.kind == "lost":
                gaps += 1
            elif line.kind != "end" or line.absent < 0:
                raise WorkerGone(f"{self._speaker} talks nonsense during enumeration: {line.kind}", ref)
            elif line.ret != dcmi_codes.OK:
                raise DriverRefused(f"the card list answered {dcmi_codes.say(line.ret)}")
            else:
                return Enumeration(chips, gaps + line.absent, line.driver)

    async def read(self, chips: Iterable[ChipFacts]) -> AsyncIterator[ChipReading]:
        """Health and codes, chip by chip, as soon as each is there."""
        async for chip, line in self._ask("read", "reading", chips):
            yield _reading(chip.identity, line)

    async def measure(self, what: str, chips: Iterable[ChipFacts]) -> AsyncIterator[Measured]:
        """The gauges `what` (dcmi_worker.GAUGES), chip by chip."""
        async for chip, line in self._ask(f"measure {what}", f"measuring {what} of", chips):
            yield Measured(chip.identity, tuple(_gauge(ret, words) for ret, words in line.gauges))

    async def _ask(self, verb: str, doing: str, chips: Iterable[ChipFacts]) -> AsyncIterator[tuple[ChipFacts, Line]]:
        """One request about some chips, and the line that answers for each."""
        wanted = list(chips)
        self.child.send(" ".join([verb, *(f"{chip.ref[0]},{chip.ref[1]}" for chip in wanted)]))
        for chip in wanted:
            line = await self._line(self._call_timeout_s, f"{doing} chip {chip.identity.phy}", chip.ref)
            if line.kind != verb.split()[0] or line.ref != chip.ref:
                raise WorkerGone(f"{self._speaker} answers about {line.ref}, not {chip.ref}")
            yield chip, line
        await self._line(self._call_timeout_s, "the end of an answer")

    async def _line(self, timeout_s: float, what: str, ref: Ref | None = None) -> Line:
        try:
            raw = await self._next(timeout_s)
        except ValueError as exc:  # a line that does not end
            raise WorkerGone(f"{self._speaker} talks nonsense during {what}: {exc}", ref) from exc
        if raw is None:
            raise WorkerHung(f"{what} did not come back within {timeout_s:g} s", ref)
        if not raw.endswith(b"\n"):
            raise WorkerGone(f"{self._speaker} ended during {what}", ref)
        try:
            return _decoder.decode(raw)
        except msgspec.MsgspecError as exc:
            raise WorkerGone(f"{self._speaker} talks nonsense during {what}: {exc}") from exc

    async def _next(self, timeout_s: float) -> bytes | None:
        """The next line, None when it does not come. While the child runs or waits for a CPU it does not hang: an
        overloaded host is not a broken driver."""
        for patience_s in (timeout_s, *STARVATION_S):
            deadline = time.monotonic() + patience_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    return await self.child.stdout.readline()
            stopped = time.monotonic() - deadline > STOPPED_S  # we were, and the answer may be there
            if not stopped and not self.child.runnable:
                break
        return None


def _facts(line: Line) -> ChipFacts:
    identity = ChipIdentity(
        phy=line.phy,
        card=line.card,
        chip=line.chip,
        logic=line.logic,
        pci=line.pci,
        die=line.die,
        name=line.name,
    )
    return ChipFacts(line.ref, identity, line.ip, line.sdid, line.super_pod)


def _gauge(ret: int, words: tuple[int, ...]) -> Gauge:
    if ret == dcmi_codes.OK:
        return Gauge(words)
    return Gauge(why="" if ret in dcmi_codes.NOT_HERE else f"the driver answered {dcmi_codes.say(ret)}")


def _reading(identity: ChipIdentity, line: Line) -> ChipReading:
    (health_ret, health), (codes_ret, codes) = line.health, line.codes
    failed = health_ret or codes_ret
    no_value = health_ret != dcmi_codes.OK or health > dcmi_codes.WORST_HEALTH
    why = ""
    if failed:
        why = f"{'health' if health_ret else 'code list'} answered {dcmi_codes.say(failed)}"
        if not (health_ret or no_value) and health > 0 and codes_ret == dcmi_codes.TOO_MANY_CODES:
            why += ", as it does when the chip has more than 128 codes"
    elif health == dcmi_codes.ABSENT_HEALTH:
        why = "the driver no longer knows this chip"
    elif no_value:
        why = f"health {health} is no value of it"
    # codes speak for themselves; that there are none is only believed beside a health
    unread = codes_ret != dcmi_codes.OK or (no_value and not codes)
    return ChipReading(
        identity,
        health=None if no_value else health,
        codes=None if unread else tuple(f"{code:08X}" for code in codes),
        error=failed or None,
        why=why,
    )
