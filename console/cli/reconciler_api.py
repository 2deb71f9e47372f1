"""Asks a reconciler: GET /v1/..., JSON back. Every way it can fail is one line that says where it was asked.

Exit code 3 when no reconciler answers there, 2 when one does and does not know what was asked for.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import click

from console.cli import kube_proxy
from console.cli.errors import Unreachable, Unusable
from reconciler.core.calls import Reply

DEFAULT_URL = "http://127.0.0.1:9466"
TIMEOUT_S = 10.0
PAGE = "1000"
"""Items asked for at once: 10,000 nodes in one answer would hold up the reconciler."""


def _where(_ctx: click.Context, _param: click.Parameter, url: str | None) -> str:
    return url or (kube_proxy.SCHEME if kube_proxy.found() else DEFAULT_URL)


url_option = click.option(
    "--url",
    envvar="NPUWARDEN_URL",
    callback=_where,
    help=f"Where the reconciler's HTTP API is: http://HOST:PORT, or {kube_proxy.SCHEME}[FILE] through the API server."
    f" Default: {kube_proxy.SCHEME} where there is a kubeconfig, else {DEFAULT_URL}. [env: NPUWARDEN_URL]",
)


def ask(url: str, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON object at `path`. Raises Unreachable, and Unusable for what the reconciler does not know (404, 400)."""
    if url.startswith(kube_proxy.SCHEME):
        full = f"{url}{path}"
        reply = kube_proxy.ask(url, path, params or {}, timeout_s=TIMEOUT_S)
    else:
        base = url.rstrip("/")
        full = f"{base}{path}{'?' + urllib.parse.urlencode(params) if params else ''}"
        reply = _direct(base, full)
    if not reply.ok:
        raise _refused(reply, full)
    return reply.body


def _direct(base: str, full: str) -> Reply:
    try:
        parts = urllib.parse.urlsplit(base)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as exc:  # a port beyond 65535, half an IPv6 address
        raise Unusable(f"--url: {base!r} is not http://HOST:PORT or https://HOST:PORT: {exc}") from exc
    if not usable:
        raise Unusable(f"--url: {base!r} is not http://HOST:PORT or https://HOST:PORT")
    if "?" in base or "#" in base:
        raise _stranger(full, "has a query before its path")
    # The reconciler is a service of the cluster: no proxy of the environment stands between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(full, timeout=TIMEOUT_S) as response:
            status, body = response.status, json.loads(response.read())
    except urllib.error.HTTPError as exc:
        with exc:
            return Reply(exc.code, _problem(exc))
    except (OSError, http.client.HTTPException) as exc:
        cause = getattr(exc, "reason", exc)
        reason = getattr(cause, "strerror", None) or cause or type(cause).__name__
        hint = "is the reconciler running? --url or NPUWARDEN_URL names another one"
        raise Unreachable(f"{base} does not answer ({reason}): {hint}") from exc
    except ValueError as exc:
        raise _stranger(full, "does not answer with JSON") from exc
    if not isinstance(body, dict):
        raise _stranger(full, "does not answer with an object")
    return Reply(status, body)


def _problem(exc: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        problem = json.loads(exc.read())
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {"detail": str(exc.reason)}


def items(url: str, path: str, params: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """All items of a list, page by page."""
    found: list[dict[str, Any]] = []
    query = {**(params or {}), "limit": PAGE}
    while True:
        page = ask(url, path, query)
        if not isinstance(part := page.get("items"), list):
            raise _stranger(f"{url.rstrip('/')}{path}", "does not answer with a list")
        found += part
        if not (token := page.get("next")):
            return found
        query["continue"] = str(token)


def _refused(reply: Reply, full: str) -> click.ClickException:
    title = str(reply.body.get("title") or "")
    text = reply.body.get("detail") or title or reply.body.get("message") or "without a word"
    if reply.status == 400 or (reply.status == 404 and title.startswith("No such ")):
        return Unusable(f"{text} ({reply.status} from {full})")
    if 300 <= reply.status < 500:
        return _stranger(full, f"answers {reply.status}")
    return Unreachable(f"{full} answers {reply.status}: {text}")


def _stranger(full: str, what: str) -> Unreachable:
    """Something answers, and it is an agent, a path below a reconciler, or another program altogether."""
    hint = f"--url or NPUWARDEN_URL names one, without a path, such as {DEFAULT_URL}"
    return Unreachable(f"this is not a reconciler: {full} {what}; {hint}")
