"""One Kubernetes API call as data, and the generators that string calls together.

A step is a generator: it yields `Call`s, is sent each `Reply`, and returns an `Outcome`. The executor drives it over
the network, the scenario runner over an object store, so both run the same preconditions and the same read-backs.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML. It needs `FIELD_MANAGER` in the query and creates what is not there."""
FIELD_MANAGER = "npu-warden"


@dataclass(frozen=True, slots=True)
class Call:
    method: Method
    path: str
    body: Any = None
    content_type: str = JSON
    params: tuple[tuple[str, str], ...] = ()
    aside: bool = False
    """Best effort: it may be carried out later, together with others of its kind or never. The step goes on at once
    and learns nothing from the reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Status 0 = no answer at all (connection refused, timed out): whether the call was carried out is not known."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return f"{self.status} {self.body.get('reason', '')}: {self.body.get('message', '')}".strip(": ")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step has come to.

    done: the goal is reached. reason/message: why not (a word for `why`, a sentence for the log); with `done`, the
    message is what the decision log has to add.
    seen: objects the API server returned, newest last: the watch cache takes them, so that the next plan sees our own
    writes. A deleted object is `("Pod", key, uid)` in `gone`.
    """

    done: bool
    reason: str = ""
    message: str = ""
    seen: tuple[dict[str, Any], ...] = ()
    gone: tuple[tuple[str, str, str], ...] = ()
    deletes: int = 0
    """Pods whose deletion began with this."""


Step = Generator[Call, Reply, Outcome]


def failed(reply: Reply, what: str, *seen: dict[str, Any]) -> Outcome:
    """The outcome of a call that was refused or not answered: a word for `why`, a sentence for the log."""
    reason = {0: "no-answer", 403: "forbidden", 404: "not-found", 409: "conflict", 422: "conflict"}.get(
        reply.status, "api"
    )
    return Outcome(False, reason, f"{what}: {reply.text}", seen)
