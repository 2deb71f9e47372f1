"""Whatever the cluster, the faults, the people and the crashes: what must always hold, and that all ends well."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from reconciler.core.policy import Breaker, Budget, Isolation, Policy, Reschedule
from tests.core.any_cluster import LAYOUTS, Wanted, layout
from tests.core.any_story import STEPS, Step, play
from tests.core.watched_cluster import Fates, WatchedCluster

pytestmark = pytest.mark.slow

HEALED_WITHIN_S = 900.0
EXAMPLES = int(os.environ.get("NPUWARDEN_PROPERTY_EXAMPLES", "30"))

POLICIES = st.builds(
    lambda per_min, breaker: Policy(
        isolate=Isolation(hold_down_s=20, hold_down_max_s=80, reboot_probation_s=20),
        reschedule=Reschedule(
            restart_request_after_s=10, grace_over_time_s=40, pod_bind_timeout_s=15, pod_ready_timeout_s=30
        ),
        budget=Budget(deletes_per_min=per_min),
        breaker=Breaker(window_s=60, nodes=breaker),
    ),
    st.sampled_from((60, 60, 3, 1)),
    st.sampled_from(("50%", "100%")),
)
FATES = st.dictionaries(st.integers(0, 150), st.sampled_from(("before", "after")), max_size=6)


@pytest.mark.timeout(180)  # 10 s, and a busy machine is no counterexample
@settings(
    deadline=None,
    max_examples=EXAMPLES,
    derandomize="NPUWARDEN_PROPERTY_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(LAYOUTS, st.lists(STEPS, min_size=1, max_size=14), POLICIES, FATES)
def test_every_call_is_right_and_all_ends_well(
    drawn: tuple[int, list[Wanted]], story: list[Step], policy: Policy, fates: Fates
) -> None:
    cluster = WatchedCluster(layout(*drawn), policy, fates)
    play(story, cluster)
    healed_at = cluster.clock.t
    while not cluster.converged() and cluster.clock.t < healed_at + HEALED_WITHIN_S:
        cluster.run_until(cluster.clock.t + 20)
    assert cluster.warden.unsettled == []
    assert cluster.open_recoveries() == []
    assert cluster.tainted == {}
    event(f"pods deleted: {min(cluster.referee.deletes, 9)}")
