"""Asks a reconciler: GET /v1/..., JSON back. Every way it can fail is one line with the URL.

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
        raise _stranger(full, "does not answer with JSON") from exc
    if not isinstance(body, dict):
        raise _stranger(full, "does not answer with an object")
    return body


def items(url: str, path: str) -> list[dict[str, Any]]:
    """All items of a list."""
    found = ask(url, path).get("items")
    if not isinstance(found, list):
        raise _stranger(f"{url.rstrip('/')}{path}", "does not answer with a list")
    return found


def _refused(exc: urllib.error.HTTPError, full: str) -> click.ClickException:
    try:
        problem = json.loads(exc.read())
        title = problem.get("title") or ""
        text = problem.get("detail") or title or exc.reason
    except (ValueError, AttributeError):
        title, text = "", exc.reason
    if exc.code == 400 or (exc.code == 404 and title.startswith("No such ")):
        return Unusable(f"{text} ({exc.code} from {full})")
    if 400 <= exc.code < 500:
        return _stranger(full, f"answers {exc.code}")
    return Unreachable(f"{full} answers {exc.code}: {text}")


def _stranger(full: str, what: str) -> Unreachable:
    """Something answers, and it is an agent, a path below a reconciler, or another program altogether."""
    hint = f"--url or NPUWARDEN_URL names one, without a path, such as {DEFAULT_URL}"
    return Unreachable(f"this is not a reconciler: {full} {what}; {hint}")
