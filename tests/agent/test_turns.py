"""Calls of one tool that run at once: how many, in which order, and never two about the same chip."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import AgentConfig
from agent.probes import link_state
from agent.sensors.process import ToolError
from agent.sensors.turns import ALONE_S, MOST_AT_ONCE, Pace, Turns
from shared.aio import cancel
from tests.agent.test_hanging_ports import sensors_of
from tests.waiting import eventually


class Calls:
    """Calls that run until they are let go."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.running: set[str] = set()
        self._go: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, *keys: int | str, urgent: bool = False) -> None:
        self._go[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._call(name, keys, urgent))

    async def _call(self, name: str, keys: tuple[int | str, ...], urgent: bool) -> None:
        async with self.turns.take(*keys, urgent=urgent):
            self.order.append(name)
            self.running.add(name)
            try:
                await self._go[name].wait()
            finally:
                self.running.remove(name)

    async def end(self, name: str) -> None:
        self._go[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        await cancel(self._tasks[name])


@asynccontextmanager
async def calls(width: int) -> AsyncIterator[Calls]:
    turns = Turns()
    turns.width = width
    made = Calls(turns)
    try:
        yield made
    finally:
        await cancel(*made._tasks.values())
    assert turns.running == 0


async def test_one_at_a_time_urgent_ones_first_and_the_others_as_they_came() -> None:
    async with calls(1) as made:
        for name, chip, urgent in (("a", 0, False), ("b", 1, False), ("c", 2, False), ("link", 3, True)):
            made.begin(name, chip, urgent=urgent)
            await asyncio.sleep(0)
        for name in ("a", "link", "b", "c"):
            assert made.running == {name}
            await made.end(name)
        assert made.order == ["a", "link", "b", "c"]


async def test_urgent_ones_leave_the_others_every_fourth_turn() -> None:
    """A tool so slow that there is always another link to ask for."""
    async with calls(1) as made:
        for number in range(8):
            made.begin(f"link {number}", number, urgent=True)
        for name in ("a", "b"):
            made.begin(name, name)
        await asyncio.sleep(0)
        while made.running:
            await made.end(next(iter(made.running)))
    links = [f"link {number}" for number in range(8)]
    assert made.order == [*links[:3], "a", *links[3:6], "b", *links[6:]]


async def test_several_at_once_but_never_about_the_same_thing() -> None:
    async with calls(3) as made:
        made.begin("a", 0)
        made.begin("b", 0, urgent=True)
        made.begin("c", 1, "optical")
        made.begin("d", 2, "optical")
        made.begin("e", 3)
        await asyncio.sleep(0)
        assert made.running == {"a", "c", "e"}, "b waits for its chip, d for the other module"
        await made.end("c")
        assert made.running == {"a", "d", "e"}
        await made.end("a")
        assert made.running == {"b", "d", "e"}


async def test_who_is_cancelled_while_waiting_leaves_its_turn_to_others() -> None:
    async with calls(1) as made:
        made.begin("a", 0)
        made.begin("b", 1)
        made.begin("c", 2)
        await asyncio.sleep(0)
        await made.cancel("b")
        await made.cancel("a")
        await eventually("the third", lambda: made.running == {"c"})


async def test_a_turn_that_is_granted_in_the_moment_of_the_cancellation_is_given_back() -> None:
    async with calls(1) as made:
        made.begin("a", 0)
        made.begin("b", 1)
        made.begin("c", 2)
        await asyncio.sleep(0)
        made._go["a"].set()
        await asyncio.sleep(0)  # a is over and has handed its turn to b, which has not run yet
        await made.cancel("b")
        await eventually("the third", lambda: made.running == {"c"})
        assert "b" not in made.order


async def test_who_is_being_cancelled_while_a_turn_ends_is_passed_over() -> None:
    """The cancellation has reached what it waits for, and not yet itself."""
    async with calls(1) as made:
        made.begin("a", 0)
        made.begin("b", 1)
        made.begin("c", 2)
        await asyncio.sleep(0)
        made._go["a"].set()  # a ends in the next turn of the loop, before b learns of its end
        made._tasks["b"].cancel()
        await eventually("the third", lambda: made.running == {"c"})
        assert made.order == ["a", "c"]
        await made._tasks["a"]


@pytest.mark.parametrize(
    ("call_s", "ports", "expected"), [(0.1, 16, 1), (0.3, 16, 1), (0.5, 16, 2), (3.0, 16, 4), (3.0, 1, 1), (9.0, 8, 4)]
)
def test_as_few_at_once_as_keep_the_promise(call_s: float, ports: int, expected: int) -> None:
    pace = Pace()
    assert pace.width(ports, 0.0) == 1, "nothing is known yet"
    pace.took(call_s)
    assert pace.width(ports, 0.0) == expected


def test_after_a_busy_tool_one_at_a_time_for_an_hour() -> None:
    pace = Pace()
    pace.took(3.0)
    pace.busy(100.0)
    assert pace.width(16, 100.0 + ALONE_S - 1) == 1
    assert pace.width(16, 100.0 + ALONE_S) == MOST_AT_ONCE


@given(times=st.lists(st.floats(0, 10), min_size=1), ports=st.integers(1, 64))
def test_never_more_than_the_most(times: list[float], ports: int) -> None:
    pace = Pace()
    for seconds in times:
        pace.took(seconds)
    assert 1 <= pace.width(ports, 0.0) <= MOST_AT_ONCE


ALONE = """
mkdir {lock}/$2 2>/dev/null || {{ echo same >> {log}; exit 1; }}
at=$(ls {lock} | wc -l)
echo $at >> {log}
sleep 0.3
rmdir {lock}/$2
{busy}
echo link status: UP
"""


async def test_a_slow_tool_is_asked_about_several_chips_at_once_and_never_twice_about_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.sensors.turns.LINKS_WITHIN_S", 0.5)
    (tmp_path / "lock").mkdir()
    log = tmp_path / "log"
    sensors = sensors_of(tmp_path, ALONE.format(lock=tmp_path / "lock", log=log, busy=""), timeout_s=20.0)
    probe = link_state.make(AgentConfig(), sensors)
    assert probe is not None
    seen, again = await asyncio.gather(probe.look(), probe.look())
    assert all(link.up for link in (*(seen.links or ()), *(again.links or ())))
    at_once = log.read_text().split()
    assert "same" not in at_once
    assert max(map(int, at_once)) == MOST_AT_ONCE


async def test_a_tool_that_bears_no_other_is_asked_again_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.sensors.turns.LINKS_WITHIN_S", 0.5)
    (tmp_path / "lock").mkdir()
    log = tmp_path / "log"
    busy = "[ $at -gt 1 ] && { echo hccn_tool is busy, please try again.; exit 11; }"
    sensors = sensors_of(tmp_path, ALONE.format(lock=tmp_path / "lock", log=log, busy=busy), timeout_s=20.0)
    assert sensors.hccn is not None
    probe = link_state.make(AgentConfig(), sensors)
    assert probe is not None
    seen = await probe.look()
    assert [link.phy for link in seen.links or () if not link.up] == [], "no port is unknown for it"
    log.write_text("")
    await probe.look()
    assert set(log.read_text().split()) == {"1"}, "one at a time from then on"


async def test_a_tool_that_says_busy_for_reasons_of_its_own_is_not_asked_for_ever(tmp_path: Path) -> None:
    tool = f"echo $2 >> {tmp_path}/calls\necho hccn_tool is busy, please try again.\nexit 11\n"
    hccn = sensors_of(tmp_path, tool, timeout_s=5.0).hccn
    assert hccn is not None
    with pytest.raises(ToolError, match="busy"):
        await hccn.stat(3)
    assert (tmp_path / "calls").read_text().split() == ["3"]


@pytest.mark.parametrize(
    ("gaps_s", "said"),
    [([], None), ([29.0, 30.0], None), ([12.0, 48.4], "ports are looked at every 48 s and not every 30 s")],
)
async def test_looks_that_come_too_late_are_told(tmp_path: Path, gaps_s: list[float], said: str | None) -> None:
    hccn = sensors_of(tmp_path, "echo link status: UP\n", timeout_s=5.0).hccn
    assert hccn is not None
    assert link_state.too_slow(gaps_s, 30.0, hccn) == said
    hccn.pace.took(3.0)
    told = link_state.too_slow(gaps_s, 30.0, hccn)
    assert told == (said and f"{said}: a call of hccn_tool takes 3.0 s")


async def test_a_port_that_is_looked_at_too_seldom_makes_the_look_a_partly_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(link_state, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    tool = f"[ $2 = 3 ] && [ -e {tmp_path}/broken ] && exit 1\necho link status: UP\n"
    probe = link_state.make(AgentConfig(), sensors_of(tmp_path, tool, timeout_s=20.0))
    assert probe is not None

    async def look(at: float) -> str | None:
        clock[0] = at
        return (await probe.look()).trouble

    assert await look(0.0) is None
    assert await look(29.0) is None
    assert "every 48 s and not every 30 s" in (await look(77.0) or "")
    (tmp_path / "broken").touch()
    assert await look(100.0) is None
    (tmp_path / "broken").unlink()
    assert await look(125.0) is None, "that it was unknown meanwhile has been told as such"
