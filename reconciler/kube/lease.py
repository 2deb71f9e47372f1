"""Leadership by a coordination.k8s.io Lease: one leader, and nobody writes after its lease may have passed on.

The holder counts from before it asked, the waiting replica from after it saw the last renewal, each on its own
monotonic clock: wall clocks are written for people and never compared. (The API server checks no fencing token;
preconditions on every write cover what a lease cannot.)
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

from reconciler.core.calls import Call, Reply
from reconciler.metrics import Metrics
from shared.aio import Ticks, cancel
from shared.names import LEASE, NAMESPACE

log = logging.getLogger(__name__)

LOOP = "lease"
LATE_S = 30.0
RELEASE_TIMEOUT_S = 2.0
GIVE_WAY_S = 30.0
"""So long a reluctant replica leaves a free lease to the others: twice the time in which they find it expired."""


class Sender(Protocol):
    async def send(self, call: Call, *, timeout_s: float) -> Reply: ...


class Lease:
    """`run(lead)` leads whenever the lease is ours. `valid_until`: monotonic seconds, 0 while somebody else leads.

    succeeds: whether a holder is known to have ended, so that its lease is not waited out. reluctant: whether any other
    replica would lead better than this one now; it then takes a lease only that nobody has wanted for `give_way_s`.
    duration_s: how long others wait after the last renewal. request_timeout_s: how long one write may take; the leading
    scope is ended that much before `valid_until`.
    """

    def __init__(
        self,
        client: Sender,
        holder: str,
        metrics: Metrics,
        ticks: Ticks,
        *,
        namespace: str = NAMESPACE,
        succeeds: Callable[[str], bool] = lambda _: False,
        reluctant: Callable[[], bool] = lambda: False,
        give_way_s: float = 0.0,
        duration_s: float = 15.0,
        renew_s: float = 3.0,
        retry_s: float = 1.0,
        request_timeout_s: float = 5.0,
    ) -> None:
        self.holder = holder
        self.valid_until = 0.0
        self._client, self._metrics, self._ticks, self._succeeds = client, metrics, ticks, succeeds
        self._reluctant, self._give_way_s = reluctant, give_way_s
        self._free_since: float | None = None
        self._duration_s, self._renew_s, self._retry_s = duration_s, renew_s, retry_s
        self._request_timeout_s = request_timeout_s
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{LEASE}"
        self._blank: dict[str, Any] = {"metadata": {"name": LEASE, "namespace": namespace}}
        self._object = self._blank
        self._renewal: tuple[Any, ...] | None = None
        self._renewal_seen_at = 0.0
        self._complaint = ""

    @property
    def leading(self) -> bool:
        return self.valid_until > 0

    @property
    def current(self) -> str:
        """Who held it when it was last seen, "" for nobody."""
        return str(self._spec.get("holderIdentity") or "")

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Lead when elected, for ever; an exception of `lead` gives the lease up and is raised here."""
        self._ticks.expect(LOOP, within_s=LATE_S)
        while True:
            await self._acquire()
            log.info("%s leads now (lease %s)", self.holder, LEASE)
            self._metrics.leader.set(1)
            scope = asyncio.create_task(lead(), name="leading scope")
            lost = False
            try:
                lost = await self._keep(scope)
            finally:
                await cancel(scope)
                self.valid_until = 0.0
                self._metrics.leader.set(0)
                if not lost:
                    await self._release()

    async def _acquire(self) -> None:
        while True:
            self._ticks.tick(LOOP)
            if await self._try_once():
                return
            await asyncio.sleep(random.uniform(0.8, 1.2) * self._retry_s)

    async def _try_once(self) -> bool:
        reply = await self._client.send(Call("GET", self._path), timeout_s=self._request_timeout_s)
        if reply.status == 404:
            self._object = self._blank
            return self._wanted() and await self._write("POST", self._collection)
        if not reply.ok:
            self._complain(reply)
            return False
        self._object = reply.body
        spec = self._spec
        renewal = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if renewal != self._renewal:
            self._renewal, self._renewal_seen_at = renewal, time.monotonic()
        silent_s = time.monotonic() - self._renewal_seen_at
        ended = self._succeeds(self.current)
        expired = silent_s >= float(spec.get("leaseDurationSeconds") or self._duration_s)
        if self.current not in ("", self.holder) and not ended and not expired:
            self._free_since = None
            return False
        if not self._wanted():
            return False
        if ended:
            log.warning("%s was an earlier process of this pod: its lease is taken over", self.current)
        elif self.current not in ("", self.holder):
            log.warning("%s has not renewed the lease for %.0f s: taking over", self.current, silent_s)
        return await self._write("PUT", self._path)

    def _wanted(self) -> bool:
        """Whether a lease that is free is to be taken now."""
        if not self._reluctant():
            self._free_since = None
            return True
        now = time.monotonic()
        if self._free_since is None:
            self._free_since = now
            log.warning("the lease is free and is left to the other replicas for %.0f s", self._give_way_s)
        return now - self._free_since >= self._give_way_s

    async def _keep(self, scope: asyncio.Task[None]) -> bool:
        """Renew until the scope ends by itself (False) or the lease is lost (True)."""
        pause_s = self._renew_s
        while True:
            await asyncio.wait({scope}, timeout=pause_s)
            if scope.done():
                scope.result()
                raise RuntimeError("the leading scope has ended without being told to")
            self._ticks.tick(LOOP)
            deadline = self.valid_until - self._request_timeout_s
            left_s = deadline - time.monotonic()
            # Half of what is left: a busy server may lose one renewal, and there is still time for another.
            if left_s > 0 and await self._write("PUT", self._path, timeout_s=min(self._request_timeout_s, left_s / 2)):
                pause_s = self._renew_s
                continue
            if self.current != self.holder:
                log.error("the lease has passed on to %s: this replica stops leading", self.current or "nobody")
                return True
            if time.monotonic() >= deadline:
                log.error("the lease could not be renewed in time: this replica stops leading")
                return True
            pause_s = min(self._retry_s, max(0.0, deadline - time.monotonic()))

    async def _write(self, method: Any, path: str, *, timeout_s: float | None = None) -> bool:
        """Make the lease ours from this moment on. Where that fails, `current` says whose it is now."""
        started = time.monotonic()
        reply = await self._client.send(
            Call(method, path, self._claimed()), timeout_s=timeout_s or self._request_timeout_s
        )
        if reply.ok:
            self._object = reply.body
            self.valid_until = started + self._duration_s
            self._complaint = ""
            return True
        if reply.status == 409:
            current = await self._client.send(Call("GET", self._path), timeout_s=timeout_s or self._request_timeout_s)
            if current.ok:
                self._object = current.body
            return False
        if reply.status == 404 and method == "PUT":
            self._object = self._blank  # somebody has deleted it: whoever creates it anew leads
        self._complain(reply)
        return False

    def _claimed(self) -> dict[str, Any]:
        spec, now = self._spec, datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        mine = spec.get("holderIdentity") == self.holder
        claimed = {
            **spec,
            "holderIdentity": self.holder,
            "leaseDurationSeconds": round(self._duration_s),
            "renewTime": now,
            "acquireTime": spec.get("acquireTime", now) if mine else now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if mine else 1),
        }
        return {**self._object, "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": claimed}

    async def _release(self) -> None:
        """So that the standby takes over at once instead of after the whole duration."""
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1}
        reply = await self._client.send(
            Call("PUT", self._path, {**self._object, "spec": spec}), timeout_s=RELEASE_TIMEOUT_S
        )
        if reply.ok:
            log.info("%s has released the lease", self.holder)
        else:
            log.warning("the lease could not be released, the standby waits it out: %s", reply.text)

    @property
    def _spec(self) -> dict[str, Any]:
        return self._object.get("spec") or {}

    def _complain(self, reply: Reply) -> None:
        if reply.text != self._complaint:
            self._complaint = reply.text
            log.warning("lease %s: %s; tried again", self._path.removeprefix("/apis/"), reply.text)
