"""What tests of whole episodes look at afterwards: who was deleted, in which order, who is back and where."""

from tests.integration.rig import Object, Rig, homes, our_taint, serving, terminating, uids
from tests.waiting import wait_until


def home(pod: Object) -> str:
    node: str = pod["spec"]["nodeName"]
    return node


def tainted_first(rig: Rig, node: str, victims: dict[str, Object]) -> None:
    """In the API server's own order the taint stands before the first delete; and the victims' UIDs are all."""
    tainted = rig.journal.wait("the taint", "Node", node, our_taint)
    deleted = [rig.journal.wait("the delete", "Pod", name, terminating) for name in victims]
    assert all(tainted.version < one.version for one in deleted), "no delete before the taint"
    assert deleted_uids(rig) == set(uids(victims).values()), "exactly these pods were deleted"


def deleted_uids(rig: Rig) -> set[str]:
    """Of every pod of the namespace that anybody has deleted so far."""
    return {entry.object["metadata"]["uid"] for entry in rig.journal.of("Pod") if terminating(entry.object)}


def serves_elsewhere(rig: Rig, prefix: str, old: dict[str, Object], broken: str) -> dict[str, Object]:
    """The unit is whole again: as many pods, none of the old ones, none on the broken node."""
    new = rig.running(prefix, len(old))
    assert broken not in homes(new)
    assert not set(uids(new).values()) & set(uids(old).values())
    return new


def renewed(rig: Rig, prefix: str, old: dict[str, Object], timeout_s: float = 25) -> dict[str, Object]:
    """The unit's pods, once all of them are new ones and Ready: the recovery itself may not have ended yet."""
    before = set(uids(old).values())

    def look() -> dict[str, Object] | None:
        pods = rig.pods(prefix)
        fresh = all(serving(pod) and pod["metadata"]["uid"] not in before for pod in pods.values())
        return pods if len(pods) == len(old) and fresh else None

    try:
        found = wait_until(f"{len(old)} new pods {prefix}* Ready", look, timeout_s)
    except AssertionError as exc:
        raise AssertionError(f"{exc}; recoveries: {rig.recoveries()}\n{rig.tails()}") from None
    assert found is not None
    return found


def ended(rig: Rig, *phases: str, timeout_s: float = 60) -> list[Object]:
    """The recoveries of the namespace, once all have ended: in these phases, in whatever order."""

    def look() -> list[Object] | None:
        found = rig.recoveries()
        return found if sorted(one["status"]["phase"] for one in found) == sorted(phases) else None

    try:
        found = wait_until(f"recoveries end as {', '.join(phases)}", look, timeout_s)
    except AssertionError as exc:
        raise AssertionError(f"{exc}; recoveries: {rig.recoveries()}\n{rig.tails()}") from None
    assert found is not None
    return found


def unfinished(rig: Rig, phase: str, timeout_s: float = 20) -> Object:
    """The one recovery of the namespace, once it is in this phase."""

    def look() -> Object | None:
        found = [one for one in rig.recoveries() if one["status"]["phase"] == phase]
        return found[0] if found else None

    try:
        seen = wait_until(f"a recovery is {phase}", look, timeout_s)
    except AssertionError as exc:
        raise AssertionError(f"{exc}; recoveries: {rig.recoveries()}\n{rig.tails()}") from None
    assert seen is not None
    return seen
