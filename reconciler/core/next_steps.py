"""What comes next: for each reason of a refusal what ends it, for each phase of a recovery what it waits for."""

from __future__ import annotations

from reconciler.core import clock
from reconciler.core.policy import Policy
from reconciler.core.recovery import Recovery

_BY_ITSELF = {
    "muted": "goes on by itself if the fault is still there when its window ends",
    "unconfirmed": "the agent's next look at the driver's list decides, within 5 s",
    "isolating": "goes on as soon as the node's taint stands",
    "healed": "nothing, unless the fault returns",
    "stale-report": "goes on once the agent is heard and the cluster is seen again",
    "capacity": "goes on as soon as a node has room: free one or add one",
    "budget": "goes on as soon as another restart has ended",
    "min-ready": "goes on as soon as enough other instances of its role are Ready",
    "probation": "released when the probation is over",
    "allocatable": "released as soon as the device plugin offers all NPUs again: look at its pod on the node",
    "foreign-actor": "somebody else restarts it: the warden waits",
    "rank-table": "ascend-operator writes the list; goes on when it is right, at the latest after 10 min",
    "chip-not-used": "nothing: these pods are well",
    "owner-deleted": "nothing: nobody wants the pods back",
    "rollout": "nothing: the controller replaces the pods itself",
    "global-table": "goes on when what the message names is there; until then the last table stays",
    "escalated": "the job's own recovery goes on from here",
    "new-fault": "the next recovery of this unit goes on from here",
}
_BY_A_PERSON = {
    "label-missing": "nothing until fault-scheduling on the pods, their PodGroup or owner is force or grace",
    "label-invalid": "nothing until fault-scheduling has one known value",
    "label-off": "nothing: the workload does not want restarts",
    "retry-disabled": "nothing until fault-retry-times is a number above 0",
    "retries-exhausted": "nothing: look why it fails, then raise fault-retry-times or re-create the owner",
    "backoff-limit": "nothing: raise the limit that the message names and re-create the job",
    "list-full": "take entries of hardware that is gone out of ConfigMap npuwarden-separated",
    "ledger-unreadable": "remove the key remain-retry-times: it is written anew",
    "breaker": "the breaker closes as its window passes; look what the nodes have in common first",
    "stand-down": "nothing: MindCluster's Volcano plugin restarts pods in this cluster",
    "sub-health": "nothing until subHealthyStrategy is graceExit or forceExit",
    "common-cause": "nothing until a person has looked; `npu-warden isolate` still works",
    "paused": "goes on after `npu-warden resume`",
    "observe-only": "nothing while policy.toml only watches this",
    "deploy-server": "nothing until what the message names is mended: its labels, or two pods with one address",
    "opt-out": "nothing until the node's label npuwarden.io/opt-out is removed",
    "no-owner": "nothing: give the pod a controller of a supported kind",
    "policy-ends-job": "nothing until the job is re-created with RestartJob, or no policy, for PodEvicted",
    "owner-terminal": "nothing until the job is re-created: its operator makes no pods any more",
}
_OF_REASON = _BY_ITSELF | _BY_A_PERSON


def reasons() -> frozenset[str]:
    return frozenset(_OF_REASON)


def next_of_reason(reason: str) -> str | None:
    """What ends a refusal; None for a word that is not known here (docs/reasons.md has them all)."""
    return _OF_REASON.get(reason)


def next_of_recovery(recovery: Recovery, policy: Policy) -> tuple[str, str | None, float | None]:
    """(what it waits for, since when, how long that takes at most in seconds) by its phase."""
    times, timing = recovery.status.times, policy.reschedule
    grace = recovery.spec.method.endswith("grace")
    match recovery.status.phase:
        case "Pending" | "Isolating":
            what = f"the pods are deleted once the taint has stood for {clock.span(timing.settle_s)}"
            return f"{what} and nothing refuses it", times.detected, None
        case "Deleting":
            forced_s = timing.grace_over_time_s if grace else timing.force_after_s
            return "the old pods end; then those that do not are forced", times.deleted or times.claimed, forced_s
        case "Recreating" if times.bound is None:
            bind_s = timing.pod_bind_timeout_s if recovery.spec.level == "Pod" else None
            return "the new pods are made and bound", times.gone, bind_s
        case "Recreating":
            ready_s = timing.pod_ready_timeout_s if recovery.spec.level == "Pod" else None
            return "the new pods become Ready", times.bound, ready_s
        case "WaitingForCapacity":
            return "goes on as soon as a node has room: free one or add one", None, None
        case "Held":
            return "goes on when what holds it ends", None, None
        case "Exhausted":
            return "nothing: a person has to look why it fails", None, None
        case "OwnerTerminal":
            return "nothing until the workload is re-created", None, None
        case "Escalated":
            return "the job's own recovery goes on from here", None, None
        case _:
            return "nothing: it is over", None, None
