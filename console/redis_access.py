"""Users of single nodes in a running Redis: made, kept and removed by ACL commands of an administrator."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from console.redis_users import NODE_PREFIX, agent_rules, hashed, new_password, user_of
from shared.config import ConfigError
from shared.redis_client import connect
from shared.redis_url import RedisSettings

TIMEOUT_S = 10.0


class NoRedis(Exception):
    """Redis does not answer, or does not let us. The text says which address and why."""


@dataclass(frozen=True, slots=True)
class Done:
    """Users made or made anew, users removed, and why they would not survive a restart of Redis (None: they do)."""

    set: tuple[str, ...]
    removed: tuple[str, ...]
    unsaved: str | None


async def keep_node_users(settings: RedisSettings, nodes: Collection[str], passwords: Path, *, prune: bool) -> Done:
    """Give each node its user, with the password of the file `passwords/<node>`, which is made where it is missing.

    prune: remove the users of all other nodes. Safe to repeat. Raises NoRedis, ConfigError (a password file).
    """
    wanted = {user_of(node): _password(passwords / node) for node in nodes}
    try:
        async with contextlib.aclosing(connect(settings, timeout_s=TIMEOUT_S)) as client:

            async def ask(*words: str) -> Any:
                async with asyncio.timeout(TIMEOUT_S):
                    return await client.execute_command(*words)  # type: ignore[no-untyped-call]

            for user, password in wanted.items():
                rules = agent_rules(user.removeprefix(NODE_PREFIX))
                await ask("ACL", "SETUSER", user, "reset", "on", hashed(password), *rules)
            known = {name.decode() for name in await ask("ACL", "USERS")}
            over = sorted(name for name in known - wanted.keys() if name.startswith(NODE_PREFIX)) if prune else []
            if over:
                await ask("ACL", "DELUSER", *over)
            try:
                await ask("ACL", "SAVE")
            except RedisError as exc:
                return Done(tuple(wanted), tuple(over), str(exc))
            return Done(tuple(wanted), tuple(over), None)
    except (RedisError, OSError, TimeoutError) as exc:
        raise NoRedis(f"Redis {settings.shown}: {exc or f'no answer within {TIMEOUT_S:g} s'}") from exc


def _password(path: Path) -> str:
    """Of the file, which is made with a new one, readable by its owner alone, where it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(made, "w", encoding="ascii") as file:
                file.write(new_password())
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"--passwords {path}: {getattr(exc, 'strerror', None) or exc}") from exc
    if not text:
        raise ConfigError(f"--passwords {path}: empty; remove it, it is then made anew")
    return text
