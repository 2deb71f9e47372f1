"""A chip hangs when it is held and nothing moves on; what cannot be read never makes a hang and never ends one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.detect.hang import TOO_LONG_S, HangWatch, IdleBelow, Work, idle

BELOW = IdleBelow(aicore_pct=5, hbm_pct=0, packets_per_min=100, cpu_s_per_min=5)
LOOKS = 5
HELD = ((4711, 100),)


def work(minute: float, **changes: object) -> Work:
    """Held since long, and doing nothing."""
    plain = Work(at=60 * minute, processes=HELD, aicore_pct=0, hbm_pct=80, packets=1000, cpu_s=300.0)
    return msgspec.structs.replace(plain, **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="nothing moves"),
        pytest.param({"processes": ()}, False, id="nobody holds it"),
        pytest.param({"processes": ((4711, 200),)}, False, id="another process under the same id"),
        pytest.param({"processes": (*HELD, (5000, 1))}, False, id="a process has come"),
        pytest.param({"aicore_pct": 5}, False, id="it computes"),
        pytest.param({"aicore_pct": 4}, True, id="hardly"),
        pytest.param({"hbm_pct": 81}, False, id="memory grows"),
        pytest.param({"hbm_pct": 70}, True, id="memory is given back"),
        pytest.param({"packets": 1100}, False, id="it talks"),
        pytest.param({"packets": 1099}, True, id="hardly a packet"),
        pytest.param({"packets": 10}, None, id="counters begun anew"),
        pytest.param({"cpu_s": 305.0}, False, id="the processes run"),
        pytest.param({"cpu_s": 304.9}, True, id="hardly any CPU"),
        pytest.param({"processes": None}, None, id="who holds it is not known"),
        pytest.param({"aicore_pct": None}, None, id="AICore is not known"),
        pytest.param({"hbm_pct": None}, None, id="HBM is not known"),
        pytest.param({"packets": None}, None, id="packets are not known"),
        pytest.param({"cpu_s": None}, None, id="CPU time is not known"),
        pytest.param({"aicore_pct": None, "packets": 9000}, False, id="one sign of life is enough"),
        pytest.param({"at": 0.0}, None, id="no time has passed"),
        pytest.param({"at": TOO_LONG_S + 1}, None, id="too long ago"),
    ],
)
def test_what_a_minute_says(changes: dict[str, object], expected: bool | None) -> None:
    assert idle(work(0), work(1, **changes), BELOW) is expected


def test_limits_are_by_the_minute() -> None:
    assert idle(work(0), work(2, packets=1150), BELOW) is True
    assert idle(work(0), work(2, packets=1200), BELOW) is False


def test_five_minutes_are_a_hang_and_the_first_sign_of_life_ends_it() -> None:
    watch = HangWatch(BELOW, LOOKS)
    assert [watch.see(3, work(minute)) for minute in range(7)] == [*[None] * LOOKS, True, True]
    assert watch.see(3, work(7, aicore_pct=60)) is False
    assert [watch.see(3, work(8 + minute)) for minute in range(LOOKS)] == [*[None] * (LOOKS - 1), True]


def test_a_look_in_vain_neither_ends_a_hang_nor_counts_for_one() -> None:
    watch = HangWatch(BELOW, LOOKS)
    for minute in range(LOOKS):
        watch.see(3, work(minute))
    assert watch.see(3, work(LOOKS, packets=None)) is None
    later = [watch.see(3, work(LOOKS + 1 + minute)) for minute in range(LOOKS + 1)]
    assert later == [*[None] * LOOKS, True], "five in a row, all of them seen"


def test_chips_are_counted_apart_and_forgotten() -> None:
    watch = HangWatch(BELOW, LOOKS)
    for minute in range(LOOKS + 1):
        watch.see(3, work(minute))
        watch.see(4, work(minute, packets=1000 * minute))
    assert (watch.idle_looks(3), watch.idle_looks(4)) == (LOOKS, 0)
    watch.keep({4})
    assert watch.see(3, work(LOOKS + 2)) is None


ANY = st.builds(
    Work,
    at=st.floats(0, 1e6),
    processes=st.none() | st.sampled_from([(), HELD, ((1, 2), (3, 4))]),
    aicore_pct=st.none() | st.integers(0, 100),
    hbm_pct=st.none() | st.integers(0, 100),
    packets=st.none() | st.integers(0, 2**64 - 1),
    cpu_s=st.none() | st.floats(0, 1e9),
)


@given(looks=st.lists(ANY, max_size=30))
def test_no_hang_is_ever_made_of_what_is_not_known(looks: list[Work]) -> None:
    watch = HangWatch(BELOW, LOOKS)
    for number, one in enumerate(looks):
        if watch.see(0, one):
            last = looks[number - LOOKS : number + 1]
            assert len(last) == LOOKS + 1
            assert all(None not in (w.processes, w.hbm_pct, w.packets, w.cpu_s) for w in last)
            assert all(w.aicore_pct is not None and w.aicore_pct < BELOW.aicore_pct for w in last[1:])
