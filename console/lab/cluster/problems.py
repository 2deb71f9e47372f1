"""API errors as Kubernetes Status objects: the code, reason and wording clients test for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNSERVED = "the server could not find the requested resource"

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Problem(Exception):
    """A refused request. ``retry_after_s`` travels in the details and as the Retry-After header."""

    status: int
    message: str
    reason: str = ""
    retry_after_s: int = 0

    def body(self) -> dict[str, Any]:
        """The Status object a client reads."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason or REASONS.get(self.status, "Unknown"),
            "code": self.status,
        }
        if self.retry_after_s:
            status["details"] = {"retryAfterSeconds": self.retry_after_s}
        return status


def bad_request(message: str) -> Problem:
    """400: the request itself makes no sense."""
    return Problem(400, message)


def not_found_path() -> Problem:
    """404 of an API that is not served, as without the kind's CustomResourceDefinition."""
    return Problem(404, UNSERVED)


def not_found(what: str, name: str) -> Problem:
    """404 of one object; ``what`` is ``pods`` or ``ascendjobs.mindxdl.gitee.com``."""
    return Problem(404, f'{what} "{name}" not found')


def already_exists(what: str, name: str) -> Problem:
    """409 of a create under a taken name."""
    return Problem(409, f'{what} "{name}" already exists', "AlreadyExists")


def conflict(what: str, name: str, why: str) -> Problem:
    """409 of a precondition that does not hold."""
    return Problem(409, f'Operation cannot be fulfilled on {what} "{name}": {why}')


def stale(what: str, name: str) -> Problem:
    """409 of a write against an older resourceVersion."""
    return conflict(
        what, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def invalid(what: str, name: str, field: str, why: str) -> Problem:
    """422: one field is not acceptable."""
    return Problem(422, f'{what} "{name}" is invalid: {field}: {why}')


def unprocessable(why: str) -> Problem:
    """422 of a patch that cannot be applied, a failed ``test`` included."""
    return Problem(422, why)


def refused(status: int, target: str) -> Problem:
    """The answer that :meth:`Store.refuse` asked for."""
    return Problem(status, f"refused by the lab: {target}", retry_after_s=1 if status == 429 else 0)
