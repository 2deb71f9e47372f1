"""When not all can be restarted at once: which unit's pods go first, and that the last ones get their turn."""

from __future__ import annotations

import pytest

from console.scenario.virtual import VirtualCluster
from console.scenario.virtual_pods import Recreate
from reconciler.core.policy import Breaker, Budget, CommonCause, Policy
from tests.core.build import job_with_pods, node
from tests.core.worlds import a_fault

pytestmark = pytest.mark.slow

PREFILL = {"app": "mindie-ms-server", "grt-group/deploy-server": "2"}
DECODE = {"app": "mindie-ms-server", "grt-group/deploy-server": "1"}
COORDINATOR = {"app": "mindie-ms-coordinator"}


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [(COORDINATOR, DECODE, PREFILL), (COORDINATOR, {"role-name": "decode"}, {"role-name": "prefill"})],
    ids=["MindIE Motor", "role names"],
)
def test_rationed_deletes_go_to_ms_then_decode_then_prefill(
    first: dict[str, str], second: dict[str, str], third: dict[str, str]
) -> None:
    """The names would have it the other way round, and all are hit at the same moment."""
    policy = Policy(
        budget=Budget(deletes_per_min=1), breaker=Breaker(nodes="100%"), common_cause=CommonCause(nodes=100)
    )
    wanted = {"z": first, "m": second, "a": third}
    jobs = [
        obj
        for (name, labels), on in zip(wanted.items(), "abc", strict=True)
        for obj in job_with_pods(name, (on,), labels={"fault-scheduling": "force", **labels})
    ]
    recreate = Recreate(after=1, ready=1, nodes=("x", "y", "w"))
    lab = VirtualCluster([*(node(name) for name in "abcxyw"), *jobs], policy=policy, recreate=recreate)
    lab.run_until(5)
    for on in "abc":
        lab.report(on, [a_fault()])

    order: list[str] = []
    for second_s in range(6, 300):
        lab.run_until(second_s)
        order += [name for name in lab.deleted if name not in order]

    assert order == ["ml/z-master-0", "ml/m-master-0", "ml/a-master-0"]
    assert [one["status"]["phase"] for one in lab.recoveries] == ["Recovered"] * 3


def test_a_unit_is_deleted_whole_or_waits_for_the_next_minute_and_the_later_ones_behind_it() -> None:
    """Three jobs of two pods, three deletes a minute: no job is ever halved, and none is passed over."""
    policy = Policy(
        budget=Budget(deletes_per_min=3, restarting="100%"), breaker=Breaker(nodes="100%"),
        common_cause=CommonCause(nodes=100),
    )  # fmt: skip
    jobs = [
        obj for name in "jkl" for obj in job_with_pods(name, (name * 2, name * 3), labels={"fault-scheduling": "force"})
    ]
    on = [name * times for name in "jkl" for times in (2, 3)]
    recreate = Recreate(after=1, ready=1, nodes=("x", "y", "w", "v", "u", "t"))
    lab = VirtualCluster([*(node(name) for name in (*on, *"xywvut")), *jobs], policy=policy, recreate=recreate)
    lab.run_until(5)
    for name in "jkl":
        lab.report(name * 2, [a_fault()])
    deleted_by: dict[int, int] = {}
    for second_s in range(6, 300):
        lab.run_until(second_s)
        deleted_by[len(lab.deleted)] = min(second_s, deleted_by.get(len(lab.deleted), second_s))
    assert set(deleted_by) | {0} == {0, 2, 4, 6}, "pairs only"
    assert deleted_by[4] - deleted_by[2] >= 59
    assert deleted_by[6] - deleted_by[4] >= 59
