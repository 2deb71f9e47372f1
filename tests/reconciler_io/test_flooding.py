"""An agent that floods is read at a bounded pace: its neighbours are heard as before, its newest word is not lost."""

import time

import pytest

from reconciler.allowance import BURST, EVERY_S, Allowance
from shared.aio import running
from tests.reconciler_io.test_inbox import Reader, report
from tests.reconciler_io.test_inbox import reader as reader
from tests.reconciler_io.test_inbox import writer as writer
from tests.waiting import eventually

FLOOD = 400


@pytest.mark.redis
async def test_a_flooding_agent_is_read_at_its_pace_and_its_neighbour_at_once(reader: Reader) -> None:
    async with running(reader.inbox.run()):
        await eventually("the first sweep", lambda: reader.inbox.ok)
        began = time.monotonic()
        for seq in range(1, FLOOD + 1):
            await reader.put("a", report("a", seq))
            await reader.tell("a")
        await reader.put("b", report("b", 1))
        await reader.tell("b")
        await eventually("the neighbour", lambda: reader.seq("b") == 1, timeout_s=5)
        await eventually("the newest word", lambda: reader.seq("a") == FLOOD, timeout_s=10)
        read = reader.metrics.registry.get_sample_value("npuwarden_reconciler_reports_total") or 0
        assert read <= BURST + (time.monotonic() - began) / EVERY_S + 2
        assert reader.rejected("flooding") > 0
        assert [bad.node for bad in reader.inbox.bad.values()] == ["a"]


def test_reads_beyond_the_burst_come_one_by_one_and_none_is_forgotten() -> None:
    allowance = Allowance()
    assert [allowance.take("a", 0.0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert allowance.take("b", 0.0)
    assert allowance.due(EVERY_S / 2) == []
    assert allowance.due(EVERY_S) == ["a"]
    assert allowance.due(10 * EVERY_S) == [], "it was read already"


def test_a_quiet_node_has_its_burst_again() -> None:
    allowance = Allowance()
    for _ in range(BURST + 1):
        allowance.take("a", 0.0)
    quiet = BURST * EVERY_S
    assert sum(allowance.take("a", quiet) for _ in range(2 * BURST)) == BURST


def test_who_has_left_the_cluster_is_forgotten() -> None:
    allowance = Allowance()
    for _ in range(BURST + 1):
        allowance.take("a", 0.0)
    allowance.keep({"b"}, 0.0)
    assert allowance.due(100.0) == []
