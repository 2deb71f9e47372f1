"""What the warden wrote and how the cluster changed, in one form for proxies and kube-apiserver's audit log."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

Object = dict[str, Any]

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Write:
    """One write that reached the server. `at`: seconds; monotonic from a proxy, of the epoch from an audit log."""

    replica: str
    at: float
    verb: str
    plural: str
    namespace: str
    name: str
    status: int
    body: Any
    answer: Object

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def version(self) -> int:
        """The resource version after it, 0 where the answer shows none."""
        return int((self.answer.get("metadata") or {}).get("resourceVersion") or 0)

    @property
    def uid(self) -> str:
        """Of a delete: the one incarnation it may end, "" for any."""
        body = self.body if isinstance(self.body, dict) else {}
        return str((body.get("preconditions") or {}).get("uid") or "")


@dataclass(frozen=True)
class Change:
    """One change of one object in the server's own order: `version`. `at`: monotonic seconds, when it was seen."""

    version: int
    at: float
    kind: str
    type: str
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])


def write_of(replica: str, at: float, method: str, path: str, body: bytes, status: int, answer: bytes) -> Write:
    """From a request that a proxy has passed on."""
    plural, namespace, name = _place(path)
    return Write(replica, at, VERBS[method], plural, namespace, name, status, _decoded(body), _object(answer))


def audited(log: Path, replicas: frozenset[str]) -> list[Write]:
    """The writes of these replicas (by User-Agent) in the audit log of a kube-apiserver, in its order."""
    found = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event.get("level") != "RequestResponse":  # the rest is there for the comparison of rights
            continue
        if event.get("userAgent") not in replicas or event.get("stage") != "ResponseComplete":
            continue
        ref = event.get("objectRef") or {}
        answer = event.get("responseObject")
        found.append(
            Write(
                event["userAgent"],
                _seconds(event["stageTimestamp"]),
                event["verb"],
                ref.get("resource", ""),
                ref.get("namespace", ""),
                ref.get("name", "") or _name(answer),
                event["responseStatus"]["code"],
                event.get("requestObject"),
                answer if isinstance(answer, dict) else {},
            )
        )
    return found


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _name(answer: Any) -> str:
    return str((answer.get("metadata") or {}).get("name", "")) if isinstance(answer, dict) else ""


def _place(path: str) -> tuple[str, str, str]:
    """Plural, namespace and name from /api/v1/... or /apis/GROUP/VERSION/...; a subresource belongs to its object."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return parts[0], namespace, parts[1] if len(parts) > 1 else ""


def _decoded(body: bytes) -> Any:
    return json.loads(body) if body else None


def _object(answer: bytes) -> Object:
    try:
        decoded = json.loads(answer)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
