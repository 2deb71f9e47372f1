"""One chip fault as the API server and Redis saw it: which step happened when. Told of changes, asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from console.lab.cluster.journal import Change
from shared.names import TAINT_KEY

Object = dict[str, Any]
Step = Literal["detected", "tainted", "deleted", "recreated", "ready", "released"]
STEPS: tuple[Step, ...] = get_args(Step)


@dataclass(slots=True)
class Episode:
    """`node` is where the chip broke. `victims` and `bystanders`: UID -> `namespace/name` of the pods that ran when it
    did, those of the broken instance and all others; `home` is (namespace, AscendJob) of the victims.

    `at`: seconds since the chip broke at which each step happened, in no promised order.
    """

    node: str
    home: tuple[str, str]
    victims: Mapping[str, str]
    bystanders: Mapping[str, str]
    at: dict[Step, float] = field(default_factory=dict)
    harmed: dict[str, str] = field(default_factory=dict)
    """Bystanders that were deleted after all: UID -> `namespace/name`."""
    taint: str = ""
    recovery: str = ""
    _gone: set[str] = field(default_factory=set)
    _bound: dict[str, str] = field(default_factory=dict)

    @property
    def replacements(self) -> dict[str, str]:
        """UID -> node of the new pods that are bound and still there."""
        return dict(self._bound)

    def detected(self, at_s: float) -> None:
        """The report that names the fault is in Redis."""
        self.at.setdefault("detected", at_s)

    def observe(self, change: Change, at_s: float) -> bool:
        """Take in one write of the API server; whether a step has happened by it."""
        before = len(self.at)
        match change.resource.kind:
            case "Node" if change.object["metadata"]["name"] == self.node:
                self._see_node(change.object, at_s)
            case "Pod":
                self._see_pod(change, at_s)
            case "Recovery":
                self._see_recovery(change.object, at_s)
        return len(self.at) > before

    def _see_node(self, node: Object, at_s: float) -> None:
        taints = (node.get("spec") or {}).get("taints") or []
        ours = next((taint for taint in taints if taint["key"] == TAINT_KEY), None)
        if ours is not None:
            self.taint = f"{TAINT_KEY}={ours.get('value', '')}:{ours['effect']}"
            self.at.setdefault("tainted", at_s)
            self.at.pop("released", None)
        elif "tainted" in self.at:
            self.at.setdefault("released", at_s)

    def _see_pod(self, change: Change, at_s: float) -> None:
        metadata = change.object["metadata"]
        uid, leaves = metadata["uid"], change.type == "DELETED" or "deletionTimestamp" in metadata
        if uid in self.bystanders and leaves:
            self.harmed[uid] = self.bystanders[uid]
        elif uid in self.victims and change.type == "DELETED":
            self._gone.add(uid)
            if self._gone == set(self.victims):
                self.at.setdefault("deleted", at_s)
        elif uid not in self.victims and self._at_home(metadata):
            self._see_replacement(uid, change.object, leaves, at_s)

    def _see_replacement(self, uid: str, pod: Object, leaves: bool, at_s: float) -> None:
        node = pod["spec"].get("nodeName")
        if leaves or not node:
            self._bound.pop(uid, None)
            return
        self._bound[uid] = node
        if len(self._bound) == len(self.victims) and self.node not in self._bound.values():
            self.at.setdefault("recreated", at_s)

    def _see_recovery(self, recovery: Object, at_s: float) -> None:
        spec = recovery["spec"]
        if (recovery["metadata"].get("namespace"), spec["workload"]["name"]) != self.home:
            return
        self.recovery = recovery["metadata"]["name"]
        if (recovery.get("status") or {}).get("phase") == "Recovered":
            self.at.setdefault("ready", at_s)

    def _at_home(self, metadata: Object) -> bool:
        return (metadata["namespace"], (metadata.get("labels") or {}).get("job-name")) == self.home
