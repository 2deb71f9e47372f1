"""The component `evidence` against the calls that are made for it, both ways."""

import asyncio
from collections.abc import Iterator

import yaml

from reconciler.core.calls import Call, Reply
from reconciler.evidence import kept_of
from tests.deploy.manifests import DEPLOY
from tests.deploy.test_rights import ANY, Right, covers, granted, needs_of
from tests.reconciler_io.test_evidence import Api, before, delete, recovery, world

COMPONENT = DEPLOY / "components" / "evidence"


class Recorder(Api):
    """Every call that reads, keeps or shows a log."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    async def get_bytes(self, path: str, params: tuple[tuple[str, str], ...], *, timeout_s: float) -> bytes:
        self.calls.append(Call("GET", path, params=params))
        return await super().get_bytes(path, params, timeout_s=timeout_s)

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        self.calls.append(call)
        return await super().send(call, timeout_s=timeout_s)


def of_the_component() -> Iterator[Right]:
    for obj in yaml.safe_load_all((COMPONENT / "rbac.yaml").read_text()):
        for rule in obj.get("rules", ()):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(rule["apiGroups"][0], resource, verb, ANY, ANY)


def needed() -> set[Right]:
    api = Recorder()
    asyncio.run(before(api, world(), delete()))
    asyncio.run(kept_of(api, recovery(), asked_for=True))
    return {need for call in api.calls for need in needs_of(call)}


def test_nothing_is_missing_and_nothing_is_unused() -> None:
    needs, rights = needed(), list(of_the_component())
    assert [need for need in sorted(needs) if not any(covers(right, need) for right in rights)] == []
    assert [right for right in rights if not any(covers(right, need) for need in needs)] == []


def test_a_cluster_that_keeps_no_logs_gives_no_right_to_read_them() -> None:
    assert [right for right in granted() if right.resource == "pods/log"] == []
