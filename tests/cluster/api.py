"""Plain HTTP to the test API server: no client library between a test and what the server really answers."""

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server answered with an error; ``status`` is the HTTP code, ``reason`` the Status object's reason."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Api:
    """Blocking requests with one bearer token. Objects go in and come out as plain dicts."""

    url: str
    token: str
    tls: ssl.SSLContext

    def request(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Any:
        """The decoded answer; text that is not JSON (/readyz) comes as str.

        Raises ApiError for a status from 400 up, OSError when the server cannot be reached.
        """
        where = urlsplit(self.url)
        connection = HTTPSConnection(where.hostname or "", where.port, timeout=20, context=self.tls)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": JSON}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        answer: Any = json.loads(text) if text.startswith("{") else text
        if response.status >= 400:
            status = answer if isinstance(answer, dict) else {"message": text}
            raise ApiError(response.status, status.get("reason", ""), status.get("message", ""))
        return answer

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def find(self, path: str) -> Any:
        """``get``, with None for what is not there."""
        try:
            return self.get(path)
        except ApiError as exc:
            if exc.status == 404:
                return None
            raise

    def post(self, path: str, body: object) -> Any:
        return self.request("POST", path, body)

    def delete(self, path: str, options: object = None) -> Any:
        """``options`` is a DeleteOptions body: ``{"preconditions": {"uid": ...}, "gracePeriodSeconds": 0}``."""
        return self.request("DELETE", path, options)

    def json_patch(self, path: str, operations: list[dict[str, Any]]) -> Any:
        return self.request("PATCH", path, operations, content_type=JSON_PATCH)

    def merge_patch(self, path: str, patch: dict[str, Any]) -> Any:
        return self.request("PATCH", path, patch, content_type=MERGE_PATCH)
