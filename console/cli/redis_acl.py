"""`npu-warden redis-acl`: users of Redis with the least they need, for all agents together or for each node alone."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import yaml

from console.cli.errors import FINDING, Unreachable, Unusable
from console.cli.output import json_option, print_json
from console.redis_users import secret_objects
from shared.config import ConfigError
from shared.redis_url import RedisSettings

RESTART = "kubectl -n npuwarden-system rollout restart statefulset npuwarden-redis"


@click.group(name="redis-acl")
def redis_acl() -> None:
    """Make the users of Redis, each with the keys and commands of its part and nothing else (Redis 7.0 or newer)."""


@redis_acl.command(name="secrets")
@click.option("--node-users", is_flag=True, help="No user for all agents: each node has its own (redis-acl nodes).")
def print_secrets(node_users: bool) -> None:
    """Print Secrets with fresh passwords, for `kubectl apply -f -`.

    Redis gets hashes, the daemons their passwords. Printed again they are other passwords, of all users at once: that
    is how to rotate them. Redis reads its users when it starts, so restart it then, or nobody gets in:

    kubectl -n npuwarden-system rollout restart statefulset npuwarden-redis
    """
    click.echo(yaml.safe_dump_all(secret_objects(node_users=node_users), sort_keys=False, width=1000), nl=False)
    click.echo(
        f"these passwords are new; a Redis that runs already takes them when it is restarted: {RESTART}", err=True
    )


@redis_acl.command(name="nodes")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--passwords", type=click.Path(path_type=Path), required=True, help="Directory, a file for each node.")
@click.option("--prune", is_flag=True, help="Remove the users of all nodes that are not named.")
@click.option("--url", default="redis://127.0.0.1:6379/0", show_default=True)
@click.option("--username", default="admin", show_default=True)
@click.option("--password-file", type=click.Path(), help="Of that user.")
@click.option("--ca-file", type=click.Path(), help="PEM of the authorities to trust.")
@click.option("--cert-file", type=click.Path(), help="PEM of the client's own certificate.")
@click.option("--key-file", type=click.Path())
@json_option
def set_nodes(
    nodes: tuple[str, ...],
    passwords: Path,
    prune: bool,
    url: str,
    username: str,
    password_file: str | None,
    ca_file: str | None,
    cert_file: str | None,
    key_file: str | None,
    as_json: bool,
) -> None:
    """Give each NODE (`name`, or `node/name` as kubectl prints it) a user of its own. Safe to repeat.

    Its password is the file of its name in --passwords, made where it is missing; bring it to that node and no other,
    as /etc/npu-warden/redis/password.
    """
    from console.redis_access import NoRedis, keep_node_users

    try:
        settings = RedisSettings(
            url=url,
            username=username,
            password_file=password_file,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
        )
        names = [node.removeprefix("node/") for node in nodes]
        done = asyncio.run(keep_node_users(settings, names, passwords, prune=prune))
    except (ConfigError, ValueError) as exc:
        raise Unusable(str(exc)) from exc
    except NoRedis as exc:
        raise Unreachable(str(exc)) from exc
    if as_json:
        print_json({"set": done.set, "removed": done.removed, "unsaved": done.unsaved})
    else:
        click.echo(f"{len(done.set)} users set, {len(done.removed)} removed; passwords: {passwords}")
    if done.unsaved is not None:
        click.echo(f"gone when Redis restarts, it has no file for them ({done.unsaved}): repeat this then", err=True)
        sys.exit(FINDING)
