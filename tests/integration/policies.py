"""Another policy for one test, read by the leader that is there: the file changes, the process stays."""

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from console.cli.toml import dump
from tests.integration.daemons import Reconciler
from tests.integration.rig import POLICY, Rig
from tests.waiting import wait_until

RELOADS = "npuwarden_reconciler_policy_reloads_total"


@contextmanager
def rules(rig: Rig, **tables: Mapping[str, Any]) -> Iterator[None]:
    """The tests' policy with these tables laid over it, key by key."""
    assert rig.leader is not None
    changed = {**POLICY, **{name: {**POLICY.get(name, {}), **table} for name, table in tables.items()}}
    _put(rig.leader, changed)
    try:
        yield
    finally:
        _put(rig.leader, POLICY)


def _put(leader: Reconciler, policy: dict[str, Any]) -> None:
    accepted = functools.partial(leader.metric, RELOADS, outcome="accepted")
    before = accepted()
    leader.policy_file.write_text(dump(policy))
    wait_until("the policy is read again", lambda: accepted() > before)
