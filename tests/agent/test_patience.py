"""When to try again."""

from itertools import pairwise

from agent.detect.readings import ChipIdentity
from agent.sensors.patience import FAST_RENEWALS, RENEWAL_S, RETRY_MAX_S, Backoff, Quarantine, Renewal


def test_a_chip_that_hangs_again_and_again_is_tried_ever_more_rarely() -> None:
    quarantine = Quarantine()
    pauses, now = [], 0.0
    for _ in range(5):
        quarantine.add((1, 0), ChipIdentity(1), "hung", now)
        assert quarantine.due(now) is None
        (chip,) = quarantine.chips
        pauses.append(chip.retry_at - now)
        now = chip.retry_at
        assert quarantine.due(now) == chip
    assert pauses == sorted(pauses)
    assert pauses[-1] == RETRY_MAX_S


def test_a_call_that_came_back_makes_every_chip_due() -> None:
    quarantine = Quarantine()
    quarantine.add((1, 0), None, "hung", 0.0)
    quarantine.hurry(1.0)
    due = quarantine.due(1.0)
    assert due is not None
    assert due.ref == (1, 0)


def test_a_chip_keeps_the_identity_it_had_before_it_hung() -> None:
    quarantine = Quarantine()
    quarantine.add((1, 0), ChipIdentity(1), "hung", 0.0)
    quarantine.add((1, 0), None, "hung again", 20.0)
    assert quarantine.chips[0].identity == ChipIdentity(1)


def test_an_odd_enumeration_is_renewed_at_once_then_some_polls_long_then_rarely() -> None:
    renewal = Renewal()
    assert renewal.due(0.0), "the first"
    renewal.done(0.0)
    assert not renewal.due(5.0), "nothing odd"
    renewed, now = [], 5.0
    while now < 200:
        renewal.note(odd=True)
        if renewal.due(now):
            renewal.done(now)
            renewed.append(now)
        now += 5.0
    assert renewed[:FAST_RENEWALS] == [5.0, 10.0, 15.0, 20.0]
    assert all(later - earlier == RENEWAL_S for earlier, later in pairwise(renewed[3:]))
    renewal.note(odd=False)
    assert not renewal.due(now + 1000)
    renewal.ask()
    assert renewal.due(now + 1000)


def test_back_off_doubles_up_to_its_limit_and_forgets_at_success() -> None:
    backoff = Backoff(first_s=5.0, max_s=30.0)
    assert not backoff.waiting(0.0)
    pauses, now = [], 0.0
    for _ in range(5):
        backoff.failed(now)
        end = next(t for t in range(1000) if not backoff.waiting(now + t))
        pauses.append(end)
        now += end
    assert pauses == [5, 10, 20, 30, 30]
    backoff.succeeded()
    assert not backoff.waiting(now)
