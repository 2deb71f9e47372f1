"""How long a healed node stays isolated: the hold-down, its growth with every flap, and the probation after it."""

from __future__ import annotations

from reconciler.core.policy import Policy
from reconciler.core.state import Heard, Record

_MOST_DOUBLINGS = 30
"""More would not change anything: the limit of the policy was reached long before."""


def hold_down_s(policy: Policy, record: Record | None) -> float:
    """The node's hold-down: doubled for every time its fault returned before the last one was over."""
    base = policy.isolate.hold_down_s
    flaps = 0 if record is None else max(0, min(record.flaps, _MOST_DOUBLINGS))
    return max(base, min(policy.isolate.hold_down_max_s, base * 2.0**flaps))


def probation_s(policy: Policy, record: Record | None, heard: Heard | None) -> float:
    """How long new work is still asked to stay away after the hold-down.

    A fault of SeparateNPU or above that went by a reboot was not seen to heal: it was seen to be forgotten.
    """
    rebooted = record is not None and heard is not None and record.boot and record.boot != heard.report.boot_id
    return max(policy.isolate.probation_s, policy.isolate.reboot_probation_s if rebooted else 0.0)
