"""The reconciler's HTTP API through the API server: no port to forward, and the rights are the kubeconfig's.

The Service's proxy reaches any replica; what only the leader knows is asked for at the leader's pod. That takes `get`
on `services/proxy` and `pods/proxy` in the warden's namespace.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from console.cli.errors import Unreachable, Unusable
from reconciler.core.calls import Call, Reply
from shared.config import ConfigError
from shared.names import NAMESPACE, RECONCILER_PORT, RECONCILER_SERVICE

if TYPE_CHECKING:  # importing it takes seconds
    from reconciler.kube.client import KubeClient

SCHEME = "kubeconfig:"
"""An --url of this kind: what follows is a file, nothing = $KUBECONFIG or ~/.kube/config."""

NOT_THE_LEADER = "This replica does not lead"
_TOLD_BY_KUBERNETES = "Status"


def found() -> bool:
    """Whether there is a kubeconfig outside a pod: then it leads to the reconciler unless an --url is given.

    One that KUBECONFIG names counts, though it be missing: whoever set it does not mean another place.
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return False
    return bool(os.environ.get("KUBECONFIG")) or os.path.isfile(os.path.expanduser("~/.kube/config"))


def ask(url: str, path: str, params: Mapping[str, str], *, timeout_s: float) -> Reply:
    """The reconciler's answer, whatever it is. Raises Unusable without a usable kubeconfig, Unreachable when the API
    server does not answer or does not let us through."""
    try:
        return asyncio.run(
            _ask(url.removeprefix(SCHEME) or None, Call("GET", path, params=tuple(params.items())), timeout_s)
        )
    except ConfigError as exc:
        raise Unusable(f"{exc}; --url or NPUWARDEN_URL names the reconciler directly") from exc


async def _ask(kubeconfig: str | None, call: Call, timeout_s: float) -> Reply:
    from reconciler.kube.client import connected

    async with connected(kubeconfig) as client:
        service = f"services/{RECONCILER_SERVICE}:{RECONCILER_PORT}"
        reply = await _through(client, service, call, timeout_s)
        if reply.status == 503 and reply.body.get("title") == NOT_THE_LEADER:
            ready = await _through(client, service, Call("GET", "/readyz"), timeout_s)
            pod = str(ready.body.get("leader", "")).partition("_")[0]  # a host's name has no underscore
            if pod:
                return await _through(client, f"pods/{pod}:{RECONCILER_PORT}", call, timeout_s)
        return reply


async def _through(client: KubeClient, where: str, call: Call, timeout_s: float) -> Reply:
    path = f"/api/v1/namespaces/{NAMESPACE}/{where}/proxy{call.path}"
    reply = await client.send(Call("GET", path, params=call.params), timeout_s=timeout_s)
    if reply.status == 0 or reply.body.get("kind") == _TOLD_BY_KUBERNETES:
        hint = f"is the reconciler running in {NAMESPACE}, and may you `get` {where.partition('/')[0]}/proxy there?"
        hint += " --url or NPUWARDEN_URL names it directly"
        raise Unreachable(f"{client.url}: {reply.text.removeprefix('0 ')}: {hint}")
    return reply
