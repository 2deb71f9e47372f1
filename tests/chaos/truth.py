"""What has really been broken, when and where: the judge believes this and not the warden."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["chip", "node", "pod"]


@dataclass
class Injected:
    """One fault. Times are monotonic seconds; `ended` None = it still stands.

    restarts: pods on the chip must restart. steady: it stands until it was answered, and must not be lost.
    """

    kind: Kind
    node: str
    began: float
    chip: int | None = None
    code: str = ""
    pod_uid: str = ""
    restarts: bool = True
    steady: bool = True
    ended: float | None = None

    @property
    def open(self) -> bool:
        return self.ended is None

    def __str__(self) -> str:
        what = {"chip": f"{self.code}@{self.chip}", "node": "node dead", "pod": f"pod {self.pod_uid} failed"}[self.kind]
        return f"{what} on {self.node}"


@dataclass
class Hand:
    """What a person has done to a node, in monotonic seconds; `ended` None: it still holds, or has no end."""

    what: Literal["isolated", "opted out", "stripped", "released"]
    node: str
    began: float
    ended: float | None = None


@dataclass
class Truth:
    """Every fault of a run, and what people did meanwhile, oldest first."""

    faults: list[Injected] = field(default_factory=list)
    hands: list[Hand] = field(default_factory=list)

    def standing(self, kind: Kind | None = None) -> list[Injected]:
        return [fault for fault in self.faults if fault.open and kind in (None, fault.kind)]

    def ill_nodes(self) -> set[str]:
        """Nodes that something keeps from serving now."""
        return {fault.node for fault in self.standing() if fault.kind != "pod"}
