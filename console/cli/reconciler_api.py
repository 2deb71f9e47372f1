"""Asks a reconciler: GET /v1/..., JSON back. Every way it can fail is one line with the URL and exit code 3."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import click

from console.cli.errors import Unreachable, Unusable

DEFAULT_URL = "http://127.0.0.1:9466"
TIMEOUT_S = 10.0

url_option = click.option(
    "--url",
    envvar="NPUWARDEN_URL",
    default=DEFAULT_URL,
    show_default=True,
    help="Where the reconciler's HTTP API is. [env: NPUWARDEN_URL]",
)


def ask(url: str, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON object at `path`. Raises Unreachable, and Unusable for what the reconciler does not know (404, 400)."""
    base = url.rstrip("/")
    if urllib.parse.urlsplit(base).scheme not in ("http", "https"):
        raise Unusable(f"--url: {url!r} is not http://HOST:PORT or https://HOST:PORT")
    full = f"{base}{path}{'?' + urllib.parse.urlencode(params) if params else ''}"
    # The reconciler is a service of the cluster: no proxy of the environment stands between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(full, timeout=TIMEOUT_S) as response:
            body = json.loads(response.read())
    except urllib.error.HTTPError as exc:
        with exc:
            raise _refused(exc, full) from exc
    except (OSError, http.client.HTTPException) as exc:
        cause = getattr(exc, "reason", exc)
        reason = getattr(cause, "strerror", None) or cause or type(cause).__name__
        hint = "is the reconciler running? --url or NPUWARDEN_URL names another one"
        raise Unreachable(f"{base} does not answer ({reason}): {hint}") from exc
    except ValueError as exc:
        raise Unreachable(f"{full} answers, but not with JSON: is that a reconciler?") from exc
    if not isinstance(body, dict):
        raise Unreachable(f"{full} answers, but not as a reconciler does")
    return body


def items(url: str, path: str) -> list[dict[str, Any]]:
    """All items of a list."""
    found = ask(url, path).get("items")
    if not isinstance(found, list):
        raise Unreachable(f"{url.rstrip('/')}{path} answers, but not with a list: is that a reconciler?")
    return found


def _refused(exc: urllib.error.HTTPError, full: str) -> click.ClickException:
    try:
        problem = json.loads(exc.read())
        text = problem.get("detail") or problem.get("title") or exc.reason
    except (ValueError, AttributeError):
        text = exc.reason
    if exc.code in (400, 404):
        return Unusable(f"{text} ({exc.code} from {full})")
    return Unreachable(f"{full} answers {exc.code}: {text}")
