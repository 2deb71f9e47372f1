"""`npu-warden drill local`: a drill on this node, through its agent's socket. Root only, no cluster needed."""

from __future__ import annotations

import http.client
import json
import secrets
import signal
import socket
import time
from types import FrameType
from typing import Any

import click

from agent.config import Paths
from console.cli.durations import Duration
from console.cli.errors import FINDING, Unreachable, Unusable
from console.drill_codes import code_refused
from console.drills import KINDS, NODE
from shared.names import AGENT_SOCKET, LOCAL_DRILL

TIMEOUT_S = 10.0
EVERY_S = 0.2
REVERTED_S = 20.0


@click.command()
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.option("--chip", type=click.IntRange(0, 1023), default=0, show_default=True, help="Physical id of the chip.")
@click.option("--code", help="Another fault code than the usual one of the kind.")
@click.option("--ttl", "ttl_s", type=Duration(), default="1m", show_default=True, help="It ends by itself then.")
@click.option("--effect", type=click.Choice(("shadow", "real")), default="shadow", show_default=True)
@click.option("--socket", "path", default=f"{Paths().state_dir}/{AGENT_SOCKET}", show_default=True)
def local(kind: str, chip: int, code: str | None, ttl_s: float, effect: str, path: str) -> None:
    """Show the agent of this node a fault, say when it has it, and take the fault back. Ctrl-C ends it too."""
    what = KINDS[kind]
    if what.by != "agent":
        raise Unusable(f"{kind}: no agent does this: {what.says}")
    if code is not None and (wrong := code_refused(code, kind)):
        raise Unusable(f"--code: {wrong}")
    name = f"{LOCAL_DRILL}{kind}-{secrets.token_hex(2)}"
    subject: int | str = NODE if what.of_node else chip
    order = {"drill": name, "chip": subject, "code": (code or what.code).upper(), "ttl_s": ttl_s, "effect": effect}
    signal.signal(signal.SIGTERM, _as_interrupt)
    began_s = time.monotonic()
    seen = False
    try:
        _ask(path, "POST", "/v1/drill", order)
        seen = _until(path, shown=True, timeout_s=ttl_s)
        if seen:
            click.echo(f"{name}: the agent has the fault after {time.monotonic() - began_s:.1f} s")
    except KeyboardInterrupt:
        click.echo(f"{name}: interrupted", err=True)
    finally:
        _ask(path, "DELETE", f"/v1/drill/{name}")
    gone = _until(path, shown=False, timeout_s=REVERTED_S)
    click.echo(f"{name}: {'ended, its fault is gone' if gone else 'ended, and its fault is still reported'}")
    if not seen or not gone:
        if not seen:
            click.echo(f"{name}: the agent has not shown the fault", err=True)
        raise SystemExit(FINDING)


def _until(path: str, *, shown: bool, timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        if _ask(path, "GET", "/v1/drill")["shown"] is shown:
            return True
        time.sleep(EVERY_S)
    return False


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def _ask(path: str, method: str, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer's JSON. Raises Unusable for what the agent refuses, Unreachable."""
    connection = _Connection(path)
    try:
        connection.request(method, what, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    except PermissionError as exc:
        raise Unusable(f"{path}: only root may drill on the node itself") from exc
    except (OSError, http.client.HTTPException, ValueError) as exc:
        hint = "does the agent run on this node? --socket names another state directory's"
        raise Unreachable(f"{path}: {getattr(exc, 'strerror', None) or exc}: {hint}") from exc
    finally:
        connection.close()
    if response.status >= 400:
        raise Unusable(str(answer.get("detail")))
    return answer


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
