"""The keys of a scenario of kind `policy` as strict types: an unknown key or a wrong type is an error with its path."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from console.scenario.common import LONGEST_S
from console.scenario.virtual_pods import Recreate
from shared.model import FaultLevel

Seconds = Annotated[float, msgspec.Meta(ge=0, le=LONGEST_S)]
Chip = Annotated[int, msgspec.Meta(ge=0)] | Literal["node"]
ConditionStatus = Literal["True", "False", "Unknown"]
Name = Annotated[str, msgspec.Meta(min_length=1)]
_DEFAULT = Recreate()


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything in a scenario file."""


class FaultItem(_Strict, frozen=True):
    chip: Chip
    code: Name
    level: FaultLevel
    confirmed: bool = True


class UnknownItem(_Strict, frozen=True):
    chip: Chip


class Report(_Strict, frozen=True):
    node: Name
    faults: tuple[FaultItem, ...] = ()
    unknown: tuple[UnknownItem, ...] = ()


class Ready(_Strict, frozen=True):
    node: Name
    status: ConditionStatus


class Fail(_Strict, frozen=True, rename="camel"):
    pod: Name
    exit_code: int = 1


class Merge(_Strict, frozen=True):
    target: Name
    patch: dict[str, Any]


class Refuse(_Strict, frozen=True):
    verb: Literal["get", "list", "create", "update", "patch", "delete"]
    target: Name
    status: Literal[409, 429, 500]
    times: Annotated[int, msgspec.Meta(ge=1)] = 1


class _Choice(_Strict, frozen=True):
    """Does one thing: exactly one key (beside `at`) is given."""

    @property
    def chosen(self) -> tuple[str, Any]:
        """That key and its value."""
        return self._given()[0]

    def _given(self) -> list[tuple[str, Any]]:
        return [(f, v) for f in self.__struct_fields__ if f != "at" and (v := getattr(self, f)) is not None]

    def __post_init__(self) -> None:
        given = [name for name, _ in self._given()]
        if len(given) != 1:
            known = ", ".join(f for f in self.__struct_fields__ if f != "at")
            raise ValueError(f"exactly one of {known} is wanted, found {', '.join(given) or 'none'}")


class Operator(_Choice, frozen=True):
    """A person acts."""

    isolate: Name | None = None
    release: Name | None = None
    pause: Name | None = None
    resume: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume is False:
            raise ValueError("resume: can only be true")


class Step(_Choice, frozen=True):
    """One step of the timeline: a time and one of the others."""

    at: Seconds
    report: Report | None = None
    silent: Name | None = None
    ready: Ready | None = None
    fail: Fail | None = None
    merge: Merge | None = None
    delete: Name | None = None
    create: dict[str, Any] | None = None
    stuck: Name | None = None
    redis: Literal["down", "up"] | None = None
    restart: Literal["reconciler"] | None = None
    refuse: Refuse | None = None
    operator: Operator | None = None


class RecoveryItem(_Strict, frozen=True):
    """What a Recovery must look like; keys left out are not checked."""

    unit: str | None = None
    level: Literal["Job", "Instance", "Pod"] | None = None
    phase: str | None = None
    reason: str | None = None
    method: Literal["force", "grace"] | None = None


class Expect(_Strict, frozen=True):
    """What must hold at a time; keys left out (None) are not checked."""

    at: Seconds
    deleted: dict[str, Literal["force", "grace"]] | None = None
    tainted: dict[str, Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]] | None = None
    recoveries: tuple[RecoveryItem, ...] | None = None
    untouched: bool | None = None
    retries: dict[str, int] | None = None
    why: dict[str, Name] | None = None
    events: tuple[Name, ...] | None = None
    condition: dict[str, ConditionStatus] | None = None


class RecreateItem(_Strict, frozen=True):
    after: Seconds = _DEFAULT.after
    ready: Seconds = _DEFAULT.ready
    nodes: tuple[Name, ...] = _DEFAULT.nodes


class PolicyScenario(_Strict, frozen=True):
    kind: Literal["policy"]
    name: Name
    objects: tuple[Name, ...]
    timeline: tuple[Step, ...]
    expect: tuple[Expect, ...]
    origin: str | None = None
    why: str | None = None
    policy: dict[str, Any] = {}
    merge: tuple[Merge, ...] = ()
    recreate: RecreateItem | Literal["never"] = RecreateItem()
