"""policy.toml: every brake and every threshold, with its default. Durations in seconds, shares as "10%"."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from shared.model import Fault, FaultLevel

Seconds = Annotated[float, msgspec.Meta(ge=0, le=10 * 365 * 86400)]
"""A duration: neither negative nor for ever, and so never infinite or not a number."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all tables: an unknown key is an error."""


class Detect(_Table, frozen=True):
    agent_silent_after_s: Seconds = 45
    not_ready_after_s: Seconds = 60
    not_ready_storm: Share = 0.34


class Isolation(_Table, frozen=True):
    hold_down_s: Seconds = 300
    hold_down_max_s: Seconds = 3600
    probation_s: Seconds = 0
    reboot_probation_s: Seconds = 86400
    scope: Literal["node", "chip"] = "node"


class Reschedule(_Table, frozen=True):
    settle_s: Seconds = 0.25
    restart_request_after_s: Seconds = 60
    force_after_s: Seconds = 10
    grace_over_time_s: Seconds = 900
    pod_bind_timeout_s: Seconds = 60
    pod_ready_timeout_s: Seconds = 600
    software_join_s: Seconds = 60
    last_state_exits: bool = False


class Budget(_Table, frozen=True):
    restarting: str = "10%"
    deletes_per_min: Count = 60


class Breaker(_Table, frozen=True):
    nodes: str = "50%"
    window_s: Seconds = 300
    min_nodes: Annotated[int, msgspec.Meta(ge=0)] = 3


class CommonCause(_Table, frozen=True):
    nodes: Count = 5
    share: Share = 0.03
    window_s: Seconds = 30


class Domains(_Table, frozen=True):
    labels: tuple[str, ...] = ("topology.kubernetes.io/rack", "npuwarden.io/switch")


class RankTables(_Table, frozen=True):
    """Whether the warden makes and serves the global rank tables of MindIE services; auto: where ClusterD does not."""

    serve: Literal["auto", "on", "off"] = "auto"


class KeptEvidence(_Table, frozen=True):
    """logs: before pods are deleted, the ends of their logs are kept. Off unless asked for: they can hold what users
    have asked the model, and tokens."""

    logs: bool = False


Told = Literal["isolated", "released", "recovered", "failed", "exhausted", "overdue", "held"]
"""What a webhook can be told."""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and not any(map(str.isspace, url))


class Webhooks(_Table, frozen=True):
    """Where notices are posted, signed with the secret in a file; no urls = nowhere."""

    urls: tuple[str, ...] = ()
    secret_file: str = ""
    events: tuple[Told, ...] = get_args(Told)

    def __post_init__(self) -> None:
        for place, url in enumerate(self.urls, 1):
            if not _is_http(url):
                # Its text is not repeated: whoever reaches the reconciler's port can read why a policy is refused.
                raise ValueError(f"webhook.urls: number {place} is not http://HOST[:PORT]... or https://HOST[:PORT]...")
        if self.urls and not self.secret_file.startswith("/"):
            raise ValueError(
                "webhook.secret_file: notices are signed: name the file of the secret, by its absolute path"
            )


class LevelRule(_Table, frozen=True):
    """What a level does: to new work on the node, and to the pods on the chip."""

    taint: Literal["NoSchedule", "PreferNoSchedule", "none"]
    reschedule: Literal["now", "after", "label", "never"]


DEFAULT_LEVELS: dict[FaultLevel, LevelRule] = {
    FaultLevel.NOT_HANDLE: LevelRule("none", "never"),
    FaultLevel.SUB_HEALTH: LevelRule("PreferNoSchedule", "label"),
    FaultLevel.RESTART_REQUEST: LevelRule("NoSchedule", "after"),
    FaultLevel.RESTART_BUSINESS: LevelRule("NoSchedule", "now"),
    FaultLevel.FREE_RESTART_NPU: LevelRule("NoSchedule", "now"),
    FaultLevel.RESTART_NPU: LevelRule("NoSchedule", "now"),
    FaultLevel.PRE_SEPARATE_NPU: LevelRule("NoSchedule", "never"),
    FaultLevel.SEPARATE_NPU: LevelRule("NoSchedule", "now"),
    FaultLevel.MANUALLY_SEPARATE_NPU: LevelRule("NoSchedule", "now"),
}


class LevelOverride(_Table, frozen=True):
    taint: Literal["NoSchedule", "PreferNoSchedule", "none"] | None = None
    reschedule: Literal["now", "after", "label", "never"] | None = None
    observe_only: bool = False


class Observe(_Table, frozen=True):
    """Codes that are judged and told, and that nothing is done for: how a new rule is tried out."""

    codes: tuple[str, ...] = ()


class Policy(_Table, frozen=True):
    """The whole of policy.toml. `Policy()` is the default."""

    observe_only: bool = False
    detect: Detect = Detect()
    isolate: Isolation = Isolation()
    reschedule: Reschedule = Reschedule()
    budget: Budget = Budget()
    breaker: Breaker = Breaker()
    common_cause: CommonCause = CommonCause()
    domains: Domains = Domains()
    observe: Observe = Observe()
    ranktable: RankTables = RankTables()
    evidence: KeptEvidence = KeptEvidence()
    webhook: Webhooks = Webhooks()
    levels: dict[FaultLevel, LevelOverride] = {}

    def observes(self, fault: Fault) -> bool:
        """Whether nothing is to be done for this fault, because its code or its level is only being tried out."""
        override = self.levels.get(fault.level)
        return self.observes_code(fault.code) or (override is not None and override.observe_only)

    def observes_code(self, code: str) -> bool:
        return code in self.observe.codes

    def rule(self, level: FaultLevel) -> LevelRule:
        base, override = DEFAULT_LEVELS[level], self.levels.get(level)
        if override is None:
            return base
        return LevelRule(override.taint or base.taint, override.reschedule or base.reschedule)

    def __post_init__(self) -> None:
        if not 2 <= self.reschedule.grace_over_time_s <= 3600:
            raise ValueError("reschedule.grace_over_time_s: must be 2..3600")
        for level in self.levels:
            rule = self.rule(level)
            if rule.taint == "none" and rule.reschedule != "never":
                raise ValueError(
                    f"levels.{level.value}: nothing is restarted without a taint: set taint, or reschedule to never"
                )
        for key, text in (("budget.restarting", self.budget.restarting), ("breaker.nodes", self.breaker.nodes)):
            share(text, 100, key=key)


def share(text: str, of: int, *, key: str = "share") -> int:
    """`"10%"` of `of`, rounded down; `"7"` is seven. Raises ValueError that names the key."""
    number = text.removesuffix("%")
    if not re.fullmatch(r"[0-9]{1,9}", number) or (text.endswith("%") and int(number) > 100):
        raise ValueError(f'{key}: {text[:40]!r} is neither a percentage such as "10%" nor a count such as "7"')
    return of * int(number) // 100 if text.endswith("%") else int(number)
