"""Users of Redis: who may do what, as ACL rules, and the Secrets that carry them.

Redis is the one thing that every node reaches, so each user may do what its part does and nothing else: no other key,
no other command. The rules use selectors, which Redis has since 7.0: one permission is for one command on one key.
Source: Redis ACL documentation (rules, selectors, `#` before a SHA-256 of the password).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any

from shared.names import EVENTS_STREAM, NAMESPACE, commands_stream, report_key

AGENT_NAMESPACE = "npuwarden-agent"
ADMIN, RECONCILER, AGENT = "admin", "reconciler", "agent"
NODE_PREFIX = "npuwarden-node-"
_NODE = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_NOTHING = ("resetkeys", "resetchannels", "-@all", "+ping", "+select")


def user_of(node: str) -> str:
    """The user of one node's agent. Raises ValueError: a name with other characters could mean several keys."""
    if not _NODE.fullmatch(node):
        raise ValueError(f"{node!r} is not the name of a Kubernetes node")
    return f"{NODE_PREFIX}{node}"


def agent_rules(node: str) -> tuple[str, ...]:
    """Of an agent: write its report, append to the history, read its commands. node: `*` = any."""
    return (
        *_NOTHING,
        f"(+set %W~{report_key(node)})",
        f"(+xadd %W~{EVENTS_STREAM})",
        f"(+xread %R~{commands_stream(node)})",
    )


def reconciler_rules() -> tuple[str, ...]:
    """The other way round: read reports and history, write commands."""
    return (
        *_NOTHING,
        f"(+mget %R~{report_key('*')})",
        f"(+xread +xrevrange %R~{EVENTS_STREAM})",
        f"(+xadd +expire %W~{commands_stream('*')})",
    )


def new_password() -> str:
    return secrets.token_urlsafe(32)


def hashed(password: str) -> str:
    """As a rule, so that Redis and its files never hold the password itself."""
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"


def line(user: str, password: str, rules: tuple[str, ...]) -> str:
    """One line of an ACL file; behind `ACL SETUSER` it is the command."""
    return " ".join((f"user {user} on", hashed(password), *rules))


def secret_objects(*, node_users: bool) -> list[dict[str, Any]]:
    """Kubernetes Secrets with fresh passwords: the users' lines for Redis, and each password where it is needed.

    node_users: without the user that all agents share, since each node has its own.
    """
    passwords = {user: new_password() for user in (ADMIN, RECONCILER, *(() if node_users else (AGENT,)))}
    rules = {ADMIN: ("~*", "&*", "+@all"), RECONCILER: reconciler_rules(), AGENT: agent_rules("*")}
    lines = ["user default off", *(line(user, password, rules[user]) for user, password in passwords.items())]
    found = [_secret("npuwarden-redis-users", NAMESPACE, {"users.acl": "\n".join(lines) + "\n"})]
    for user, password in passwords.items():
        namespace = AGENT_NAMESPACE if user == AGENT else NAMESPACE
        found.append(_secret(f"npuwarden-redis-{user}", namespace, {"password": password}))
    return found


def _secret(name: str, namespace: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "npu-warden"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": data}
