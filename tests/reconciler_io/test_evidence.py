"""Logs are kept before a delete, against one deadline, and nothing about them keeps a unit from its restart."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from reconciler import evidence as module
from reconciler.core import kept_logs
from reconciler.core.actions import Action, DeletePods, HandOver, Mark, Victim
from reconciler.core.calls import Call, Reply
from reconciler.core.kept_logs import ContainerLog
from reconciler.core.objects import Meta
from reconciler.core.policy import KeptEvidence, Policy
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, RecoveryStatus, Target, Times, WorkloadRef
from reconciler.core.state import World
from reconciler.evidence import TOTAL_S, Evidence, kept_of
from reconciler.kube.client import KubeError
from reconciler.metrics import Metrics
from tests.core.build import node, pod
from tests.core.worlds import world_of

PODS = ("llm-0", "llm-1")
Answer = Callable[[str], Awaitable[bytes]]


async def hang(_path: str) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


async def speak(path: str) -> bytes:
    return f"last words of {path.split('/')[-2]}\n".encode()


class Api:
    """An API server with a log for every pod, and the objects that were created."""

    def __init__(self, logs: Answer = speak, *, writes: int = 201, hangs: bool = False) -> None:
        self.logs, self.writes, self.hangs = logs, writes, hangs
        self.made: list[dict[str, Any]] = []
        self.asked: list[str] = []

    async def get_bytes(self, path: str, params: tuple[tuple[str, str], ...], *, timeout_s: float) -> bytes:
        self.asked.append(path)
        return await self.logs(path)

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        if self.hangs:
            await asyncio.Event().wait()
        if call.method == "POST":
            if self.writes < 300:
                self.made.append(call.body)
            return Reply(self.writes, call.body if self.writes < 300 else {"reason": "Refused"})
        found = [obj for obj in self.made if call.path.endswith(obj["metadata"]["name"])]
        return Reply(200, found[0]) if found else Reply(404)

    def logs_kept(self) -> list[ContainerLog]:
        (made,) = self.made
        return msgspec.json.decode(made["data"]["logs.json"], type=list[ContainerLog])


def recovery(deleted: str | None = None) -> Recovery:
    targets = tuple(Target(name, f"uid-{name}", "a") for name in PODS)
    ref = WorkloadRef("mindxdl.gitee.com/v1", "AscendJob", "llm", "u")
    spec = RecoverySpec(ref, "ml/llm", "Job", "force", Cause("Hardware"), targets=targets)
    meta = Meta(name="llm-1a2b", namespace="ml", uid="r")
    return Recovery(meta, spec, RecoveryStatus(phase="Deleting", times=Times(deleted=deleted)))


def delete(deleted: str | None = None) -> DeletePods:
    victims = tuple(Victim("ml", name, f"uid-{name}", 1) for name in PODS[:1])
    return DeletePods(recovery(deleted), victims, ("a",), ())


def world(*, logs: bool = True, ready: str = "True") -> World:
    objects = [node("a", ready=ready), *(pod(name, "a", None) for name in PODS)]
    return world_of(objects, policy=Policy(evidence=KeptEvidence(logs=logs)))


def keeper(api: Api, made: World, metrics: Metrics | None = None, *, lease_s: float = 60.0) -> Evidence:
    until = time.monotonic() + lease_s
    return Evidence(api, made, lambda: until, metrics or Metrics())


async def before(api: Api, made: World, action: Action) -> None:
    kept = keeper(api, made)
    await kept.before(action)
    await kept.close()


async def test_the_last_words_of_the_whole_unit_are_kept_with_its_recovery() -> None:
    api = Api()
    await before(api, world(), delete())
    assert [(one.pod, one.text) for one in api.logs_kept()] == [
        ("llm-0", "last words of llm-0"),
        ("llm-1", "last words of llm-1"),
    ]
    (owner,) = api.made[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Recovery", "r")


@pytest.mark.parametrize(
    ("action", "made"),
    [
        (delete(), world(logs=False)),
        (delete(deleted="2026-01-01T00:00:00Z"), world()),
        (HandOver(recovery(), (Mark("llm-0", "uid-llm-0", None),), ("a",), ()), world()),
    ],
    ids=["the policy does not ask for it", "not the first delete", "a mark that is only taken off"],
)
async def test_nothing_is_read(action: Action, made: World) -> None:
    api = Api()
    await before(api, made, action)
    assert api.asked == []
    assert api.made == []


async def test_what_another_operator_will_delete_is_read_too() -> None:
    api = Api()
    await before(api, world(), HandOver(recovery(), (Mark("llm-0", "uid-llm-0", "restart"),), ("a",), ()))
    assert len(api.logs_kept()) == 2


async def test_a_recovery_is_read_once_however_often_its_delete_is_tried() -> None:
    api = Api()
    kept = keeper(api, world())
    for _ in range(3):
        await kept.before(delete())
    assert len(api.asked) == 2
    await kept.close()


async def test_nobody_waits_for_logs_that_hang() -> None:
    """Half of them: what can be read is kept, the rest has its reason."""

    async def half(path: str) -> bytes:
        return await (hang(path) if "llm-0" in path else speak(path))

    api = Api(half)
    began = time.monotonic()
    await before(api, world(), delete())
    assert time.monotonic() - began < TOTAL_S + 5  # a loaded machine; a read that is waited for never ends
    slow, fine = api.logs_kept()
    assert "not read within" in str(slow.missing)
    assert fine.text


async def test_nobody_waits_for_a_write_that_hangs() -> None:
    api = Api(hangs=True)
    began = time.monotonic()
    await before(api, world(), delete())
    assert time.monotonic() - began < TOTAL_S + 5


async def test_the_deadlines_add_up_to_less_than_a_second() -> None:
    assert module.READ_S < TOTAL_S < 1.0


async def test_a_dead_node_is_not_asked() -> None:
    api = Api(hang)
    await before(api, world(ready="Unknown"), delete())
    assert api.asked == []
    assert all("does not answer" in str(one.missing) for one in api.logs_kept())


@pytest.mark.parametrize("status", [400, 403, 404, 500, 0])
async def test_a_read_that_is_refused_has_its_reason(status: int) -> None:
    async def refuse(_path: str) -> bytes:
        raise KubeError(Reply(status, {"reason": "Refused", "message": "because"}))

    api = Api(refuse)
    await before(api, world(), delete())
    said = {str(one.missing) for one in api.logs_kept()}
    assert len(said) == 1
    assert ("components/evidence" if status == 403 else "because") in said.pop()


async def test_a_bug_in_it_keeps_no_unit_from_its_restart(caplog: pytest.LogCaptureFixture) -> None:
    async def bug(_path: str) -> bytes:
        raise RuntimeError("a bug")

    await before(Api(bug), world(), delete())
    assert "the restart goes on" in caplog.text


async def test_a_write_that_is_refused_is_said_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    kept = keeper(Api(writes=403), world(), metrics)
    await kept.before(delete())
    await kept.close()
    assert metrics.registry.get_sample_value("npuwarden_reconciler_kept_logs_total", {"result": "unwritten"}) == 1
    assert "deploy/components/evidence" in caplog.text


async def test_nothing_is_written_when_the_lease_may_have_passed_on() -> None:
    api = Api()
    kept = keeper(api, world(), lease_s=1.0)
    await kept.before(delete())
    await kept.close()
    assert api.made == []


async def test_what_is_kept_is_shown() -> None:
    api = Api()
    await before(api, world(), delete())
    shown = await kept_of(api, recovery(), asked_for=True)
    assert shown.note is None
    assert [one.pod for one in shown.logs] == list(PODS)


@pytest.mark.parametrize(
    ("asked_for", "deleted", "note"),
    [(False, None, "evidence.logs"), (True, None, "nothing is deleted yet"), (True, "x", "no logs were kept")],
)
async def test_why_nothing_is_shown(asked_for: bool, deleted: str | None, note: str) -> None:
    shown = await kept_of(Api(), recovery(deleted), asked_for=asked_for)
    assert shown.logs == []
    assert note in str(shown.note)


async def test_what_does_not_fit_an_object_is_cut() -> None:
    async def long(_path: str) -> bytes:
        return b"x" * kept_logs.ASKED_BYTES

    api = Api(long)
    await before(api, world(), delete())
    assert all(one.cut for one in api.logs_kept())
    assert len(json.dumps(api.made[0])) < 3 * kept_logs.POD_BYTES
