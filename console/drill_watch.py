"""Turns what the reconciler answers during a drill into phases. Pure: answers and times come from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.drills import KINDS

QUIET_S = 5.0
"""After a taint, so long without a new recovery means that nothing there is restarted."""
SETTLED_S = 1.0
"""A drill that only shows something goes on for so long after it was seen."""


_BAD_ENDS = frozenset({"Exhausted", "OwnerTerminal", "Aborted"})


class Watch:
    """One drill. began_s and now_s are of one monotonic clock.

    before: recoveries that stood before it, by `namespace/name`. pod: `namespace/name` of the one that ends.
    """

    def __init__(
        self, name: str, kind: str, node: str, effect: str, before: set[str], began_s: float, pod: str = ""
    ) -> None:
        self.name, self.node, self.effect = name, node, effect
        self.kind = KINDS[kind]
        self.at_s: dict[str, float] = {}
        self.recoveries: list[str] = []
        self.would: list[str] = []
        self.held = ""
        self.harm = ""
        """What has happened although nothing should."""
        self._pod = pod
        self._before, self._began_s = before, began_s
        self._still_open = False
        self._tainted_before: bool | None = None

    def see(
        self,
        row: Mapping[str, Any] | None,
        node: Mapping[str, Any],
        recoveries: Sequence[Mapping[str, Any]],
        now_s: float,
    ) -> None:
        """One round of answers: the drill's row, the node, all recoveries."""
        after = now_s - self._began_s
        if row is not None:
            self.would = row.get("would") or self.would
            self.held = row.get("held") or self.held
        ours = [one for one in recoveries if self._caused(one)]
        if self._detected(node, ours):
            self.at_s.setdefault("detect", after)
        if self.kind.held:
            self._see_harm(node)
        if self.effect != "real" or self.kind.held or "detect" not in self.at_s:
            return
        if node.get("taint") and "taint" in self.kind.phases:
            self.at_s.setdefault("taint", after)
        self.recoveries = sorted(f"{one['namespace']}/{one['name']}: {phase_of(one)}" for one in ours)
        self._still_open = any(phase_of(one) != "Recovered" for one in ours)
        self.harm = next((_bad_end(one) for one in ours if phase_of(one) in _BAD_ENDS), "")
        if ours and all((one["status"].get("times") or {}).get("deleted") for one in ours):
            self.at_s.setdefault("delete", after)
        if ours and not self._still_open:
            self.at_s.setdefault("ready", after)

    def complete(self, wanted: Mapping[str, float], now_s: float) -> bool:
        """Whether nothing more is to be waited for before the drill is ended."""
        if self.harm:
            return True
        if "detect" not in self.at_s:
            return False
        missing = [one for one in wanted if one not in self.at_s and one != "reverted"]
        if self.effect != "real" or self.kind.held:
            return not missing and now_s - self._began_s > self.at_s["detect"] + SETTLED_S
        if self.recoveries:
            return not self._still_open and not missing
        return not missing and "taint" in self.at_s and now_s - self._began_s > self.at_s["taint"] + QUIET_S

    def is_ours(self, fault: Mapping[str, Any]) -> bool:
        return fault.get("origin") == "drill" and (fault.get("evidence") or {}).get("drill") == self.name

    @property
    def restarts(self) -> bool:
        """Whether the plan restarts something once the pod has Failed."""
        return any(text.startswith("restart ") for text in self.would)

    def _detected(self, node: Mapping[str, Any], ours: Sequence[Mapping[str, Any]]) -> bool:
        if self.kind.held:
            return bool(self.held)
        if self.kind.by == "command":
            return bool(ours) if self.effect == "real" else bool(self.would)
        return any(self.is_ours(fault) for fault in node.get("faults") or ())

    def _see_harm(self, node: Mapping[str, Any]) -> None:
        """A taint that comes while nothing may, for no fault of its own."""
        taint = node.get("taint")
        if self._tainted_before is None:
            self._tainted_before = bool(taint)
        elif taint and not self._tainted_before and not node.get("faults"):
            self.harm = f"{self.node} was isolated although nothing is known against it: {taint}"

    def _caused(self, recovery: Mapping[str, Any]) -> bool:
        spec, cause = recovery["spec"], recovery["spec"]["cause"]
        if f"{recovery['namespace']}/{recovery['name']}" in self._before or spec.get("origin") != "drill":
            return False
        if not self._pod:
            return self.node in (cause.get("nodes") or ())
        namespace, _, name = self._pod.partition("/")
        return recovery["namespace"] == namespace and any(
            fault.startswith(f"pod {name} ") for fault in cause.get("faults") or ()
        )


def _bad_end(recovery: Mapping[str, Any]) -> str:
    status = recovery["status"]
    return f"recovery {recovery['namespace']}/{recovery['name']} ended as {phase_of(recovery)}: {status.get('message')}"


def phase_of(recovery: Mapping[str, Any]) -> str:
    return str(recovery["status"].get("phase") or "Pending")
