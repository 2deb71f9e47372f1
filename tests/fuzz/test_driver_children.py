"""What the driver's two children say, damaged: a frame of 360 bytes, a line of JSON. Nothing but the agreed errors."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from agent.detect.detector import Detector
from agent.detect.readings import ChipEvent, ChipIdentity, DriverReading
from agent.detect.settings import DetectSettings
from agent.sensors.child import Child
from agent.sensors.dcmi_events import FRAME_BYTES
from agent.sensors.events import parse_event
from agent.sensors.worker import ChipFacts, DriverRefused, Worker, WorkerGone, WorkerHung
from shared import catalog
from shared.model import Instant
from tests.fuzz.damage import FUZZ, altered, damaged

CODE = re.compile(r"[0-9A-F]{8}")
PHY_OF = {0: 0, 1: 9, 65535: 3}
FRAMES = st.one_of(
    st.binary(min_size=FRAME_BYTES, max_size=FRAME_BYTES),
    # type 0 and a chip that is known, the rest as it comes
    st.builds(
        lambda logic, rest: (bytes(12) + logic.to_bytes(2, "little") + rest)[:FRAME_BYTES],
        st.sampled_from(sorted(PHY_OF)),
        st.binary(min_size=FRAME_BYTES, max_size=FRAME_BYTES),
    ),
)


@FUZZ
@given(st.lists(FRAMES, max_size=8))
def test_any_frame_is_an_event_of_a_known_chip_or_none_and_detection_takes_it(frames: list[bytes]) -> None:
    detector = Detector(catalog.load(), DetectSettings())
    for frame in frames:
        event = parse_event(frame, PHY_OF)
        if event is not None:
            assert isinstance(event, ChipEvent)
            assert event.phy in PHY_OF.values()
            assert CODE.fullmatch(event.code)
            assert event.assertion in ("occur", "recover", "once")
            event.name.encode()
            detector.events([event], Instant(1.0, 1.0))
    detector.driver(DriverReading(), Instant(5.0, 5.0))
    assert not detector.view(Instant(5.0, 5.0)).chips, "an event alone makes no chip"


CHIPS = [ChipFacts((card, 0), ChipIdentity(card)) for card in (0, 1)]
READ: list[dict[str, Any]] = [
    {"kind": "read", "ref": [0, 0], "health": [0, 2], "codes": [0, [0x80E18402, 0x81078603]]},
    {"kind": "read", "ref": [1, 0], "health": [-8012, 0], "codes": [-8005, []]},
    {"kind": "end", "ret": 0},
]
LISTED: list[dict[str, Any]] = [
    {"kind": "at", "ref": [0, -1]},
    {"kind": "chip", "ref": [0, 0], "phy": 0, "logic": 0, "card": 0, "chip": 0, "pci": "0000:C1:00.0", "die": "A"},
    {"kind": "lost", "ref": [1, 0], "ret": -8012},
    {"kind": "end", "ret": 0, "absent": 1, "driver": "25.5.1"},
]


def lines(good: list[dict[str, Any]]) -> st.SearchStrategy[list[bytes]]:
    def as_bytes(one: dict[str, Any]) -> bytes:
        return b"".join([str(one).replace("'", '"').encode(), b"\n"])

    either = [st.one_of(st.just(as_bytes(one)), altered(one).map(lambda raw: raw + b"\n")) for one in good]
    whole = st.builds(lambda *parts: list(parts), *either)
    return st.one_of(whole, damaged(b"".join(map(as_bytes, good))).map(lambda raw: [raw]))


async def worker(said: list[bytes]) -> Worker:
    """A child that has said this and ended."""
    stdout = asyncio.StreamReader(limit=1 << 16)
    stdout.feed_data(b"".join(said))
    stdout.feed_eof()
    child = SimpleNamespace(pid=1, stdout=stdout, runnable=False, send=lambda line: None)
    return Worker(cast(Child, child), call_timeout_s=5.0)


@FUZZ
@given(lines(READ))
def test_any_answer_to_a_read_is_of_the_chip_asked_for_or_an_end_of_the_child(said: list[bytes]) -> None:
    async def ask() -> None:
        asked = await worker(said)
        wanted = iter(CHIPS)
        try:
            async for reading in asked.read(CHIPS):
                assert reading.chip == next(wanted).identity
                assert reading.error != 0
                assert reading.health in (None, 0, 1, 2, 3)
                assert all(CODE.fullmatch(code) for code in reading.codes or ())
        except (WorkerGone, WorkerHung):
            return

    asyncio.run(ask())


@FUZZ
@given(lines(LISTED))
def test_any_enumeration_is_a_list_or_one_of_the_agreed_errors(said: list[bytes]) -> None:
    async def ask() -> None:
        asked = await worker(said)
        try:
            found = await asked.enumerate((), 5.0)
        except (WorkerGone, WorkerHung, DriverRefused):
            return
        assert found.gaps >= 0
        assert all(phy == facts.identity.phy >= 0 for phy, facts in found.chips.items())

    asyncio.run(ask())


def test_a_line_without_end_is_an_end_of_the_child() -> None:
    async def ask() -> str:
        try:
            await (await worker([b"9" * (1 << 17), b"\n"])).enumerate((), 5.0)
        except WorkerGone as exc:
            return str(exc)
        return ""

    assert "talks nonsense" in asyncio.run(ask())
