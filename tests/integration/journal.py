"""What the API server showed, in its own order: a watch of nodes, pods and recoveries, kept from the first event."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from tests.cluster.api import Api
from tests.waiting import wait_until

WATCH_S = 3600


@dataclass(frozen=True)
class Entry:
    """One event. ``at`` is when it was seen (monotonic seconds), ``version`` its place in the server's one order."""

    at: float
    kind: str
    change: str
    object: dict[str, Any]

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


class Journal:
    """Watches from its creation on; ``paths`` are collections of the API by a name of their kind."""

    def __init__(self, api: Api, paths: dict[str, str]) -> None:
        self._api = api
        self.entries: list[Entry] = []
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._follow, args=item, daemon=True) for item in paths.items()]
        self._open = threading.Semaphore(0)
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            assert self._open.acquire(timeout=20), "the API server does not accept a watch"

    def close(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):  # the server has ended this one
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)
            assert not thread.is_alive(), "a watch does not end"

    def of(self, kind: str, name: str = "") -> list[Entry]:
        """The events of one kind, or one object of it, in the server's order."""
        found = [e for e in self.entries if e.kind == kind and name in ("", e.object["metadata"]["name"])]
        return sorted(found, key=lambda entry: entry.version)

    def first(self, kind: str, name: str, holds: Any) -> Entry | None:
        """The first event of an object for which ``holds(object)``."""
        return next((entry for entry in self.of(kind, name) if holds(entry.object)), None)

    def wait(self, what: str, kind: str, name: str, holds: Any, timeout_s: float = 20) -> Entry:
        """The first event of an object, past or coming, for which ``holds(object)``."""
        found = wait_until(what, lambda: self.first(kind, name, holds), timeout_s)
        assert found is not None
        return found

    def _follow(self, kind: str, path: str) -> None:
        version = self._api.get(f"{path}?limit=1")["metadata"]["resourceVersion"]
        where = urlsplit(self._api.url)
        connection = HTTPSConnection(where.hostname or "", where.port, context=self._api.tls)
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {self._api.token}"})
        self._sockets.append(connection.sock)
        response = connection.getresponse()
        self._open.release()
        try:
            for line in _lines(response):
                event = json.loads(line)
                self.entries.append(Entry(time.monotonic(), kind, event["type"], event["object"]))
        finally:
            response.close()
            connection.close()


def _lines(response: Any) -> Iterator[bytes]:
    """Until the connection ends, by whomever."""
    while True:
        try:
            line = response.readline()
        except (OSError, HTTPException, ValueError):
            return
        if not line:
            return
        yield line
