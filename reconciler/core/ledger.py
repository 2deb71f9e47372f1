"""The retry ledger: what keeps ascend-operator from ending an AscendJob for good when one of its pods fails.

The operator looks up `<namespace>/<job>-<job uid>` in key `remain-retry-times` of ConfigMap
`volcano-system/vcjob-fault-npu-cm`, a JSON object of `{"UUID": job uid, "Times": retries left}`. MindCluster's Volcano
plugin keeps it; where that plugin does not run nobody does, and the first failed pod ends its job. Then it is kept
here, from the moment a job is seen: a pod that fails before its entry stands is lost.

Only entries that were written here are ever removed; key `npuwarden-entries` lists them.
Source: MindCluster ascend-operator and ascend-for-volcano (ConfigMap, key, entries, when they are asked for).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from reconciler.core import retries
from reconciler.core.actions import Hold, WriteLedger
from reconciler.core.memberships import whole_job
from reconciler.core.objects import Owner
from reconciler.core.resources import RETRY_LEDGER
from reconciler.core.state import State
from reconciler.core.units import Index, method_of, retry_limit

ENTRIES = "remain-retry-times"
OURS = "npuwarden-entries"
SUBJECT = f"ConfigMap/{RETRY_LEDGER.namespace}/{RETRY_LEDGER.name}"


class Limits:
    """`fault-retry-times` of every AscendJob whose labels allow restarts and retries, by its UID.

    unspent: the entries of all of them, as they are while no retry is used; whoever reads them changes none.
    """

    def __init__(self) -> None:
        self.of: dict[str, tuple[Owner, int]] = {}
        self.unspent: dict[str, dict[str, Any]] = {}

    def follow(self, index: Index, touched: Collection[str]) -> None:
        """touched: the controllers of which something has changed."""
        for uid in touched:
            job = index.state.owners.get(uid)
            limit = _limit(job, index) if job is not None and job.kind == "AscendJob" else None
            if (before := self.of.pop(uid, None)) is not None:
                del self.unspent[entry_key(before[0])]
            if job is not None and limit is not None:
                self.of[uid] = job, limit
                self.unspent[entry_key(job)] = _entry(uid, limit)


def _limit(job: Owner, index: Index) -> int | None:
    unit = whole_job(job, index, size=0, blocked=None)
    limit = retry_limit(unit, index)
    return None if limit is None or method_of(unit, index).name is None else limit


def plan_ledger(state: State, limits: Limits) -> Iterator[WriteLedger | Hold]:
    """The write that makes the ledger say what it must, if it does not; nothing where it is somebody else's."""
    if state.npu_scheduler or not _asked(state):
        return
    wanted, held = _wanted(state, limits), state.ledger
    data = (held.data or {}) if held is not None else {}
    entries = _object(data.get(ENTRIES))
    if entries is None:
        if wanted:
            message = (
                f"key {ENTRIES} is no JSON object: it is left as it is, and a failed pod ends its AscendJob "
                f"({len(wanted)} with retries); remove the key, it is then written anew"
            )
            yield Hold(SUBJECT, "ledger-unreadable", message)
        return
    ours = _names(data.get(OURS))
    if entries == wanted and ours == wanted.keys():
        return  # as it is in nearly all rounds
    right = {key: entry for key, entry in entries.items() if key not in ours or key in wanted} | wanted
    if right != entries or ours != wanted.keys():
        texts = {ENTRIES: _json(right), OURS: _json(sorted(wanted))}
        yield WriteLedger(held.metadata.resource_version if held is not None else None, texts)


def entry_key(job: Owner) -> str:
    """The job's PodGroup, as its operator names it."""
    return f"{job.metadata.namespace}/{job.metadata.name}-{job.metadata.uid}"


def _asked(state: State) -> bool:
    """The operator asks it only where jobs have PodGroups. A kind that cannot be seen is not one without objects."""
    return not state.kinds or {"AscendJob", "PodGroup"} <= state.kinds


def _wanted(state: State, limits: Limits) -> dict[str, dict[str, Any]]:
    """Entries of all AscendJobs whose labels allow restarts and retries.

    While an episode of a job is open its entry never says 0: the retry it uses is its last failure's, and what fails
    along with it must not end the job.
    """
    if not limits.of:
        return {}
    spent = retries.charges(state.recoveries.values())
    busy = {recovery.spec.workload.uid for recovery in state.recoveries.values() if recovery.open}
    wanted = limits.unspent.copy()
    for uid in busy | {uid for uid, _ in spent}:
        if uid in limits.of:
            job, limit = limits.of[uid]
            left = max(0, limit - spent.get((uid, job.metadata.key), 0))
            wanted[entry_key(job)] = _entry(uid, max(left, 1) if uid in busy else left)
    return wanted


def _entry(uid: str, times: int) -> dict[str, Any]:
    return {"UUID": uid, "Times": times}


@lru_cache(maxsize=2)
def _object(text: str | None) -> Mapping[str, Any] | None:
    """None: there is something, and it is no JSON object. Kept: it is long, and the same from round to round."""
    try:
        found = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return None
    return {} if found is None else found if isinstance(found, dict) else None


@lru_cache(maxsize=2)
def _names(text: str | None) -> frozenset[str]:
    """Keys of the entries written here; a list that was tampered with claims none."""
    try:
        return frozenset(msgspec.json.decode(text or "[]", type=list[str]))
    except (msgspec.DecodeError, msgspec.ValidationError):
        return frozenset()


def _json(value: Mapping[str, Any] | list[str]) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
