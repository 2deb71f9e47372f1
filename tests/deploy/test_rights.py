"""Rights against calls, both ways: what the reconciler sends is allowed, and what is allowed is sent.

The calls come from scenarios of the repository, played with the real plan and steps, once as they are and once with a
conflict as the first answer to each kind of write, so that the ways back are gone too; from steps that no scenario
takes; from the table of watches; from the lease. That these are all is shown by tests/integration/test_rights_used.py:
it compares both with what a real API server was asked by reconcilers that have these rights and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from console.lab.cluster.resources import RESOURCES, Resource, parse_path
from console.lab.cluster.store import Store
from console.scenario.common import convert, load
from console.scenario.policy import play, start
from console.scenario.policy_format import PolicyScenario
from console.scenario.virtual_warden import Warden
from reconciler.core.actions import KeepSeparations, Prune
from reconciler.core.calls import APPLY_PATCH, MERGE_PATCH, Call, Reply, Step
from reconciler.core.event_book import EventBook
from reconciler.core.events import event
from reconciler.core.objects import Meta
from reconciler.core.recovery import Cause, Recovery, RecoverySpec, WorkloadRef
from reconciler.core.recovery_steps import prune
from reconciler.core.resources import OWNERS, WATCHED
from reconciler.core.separation_steps import keep_separations
from reconciler.core.wishes import PAUSE, Wish
from reconciler.kube.lease import Lease
from reconciler.metrics import Metrics
from shared.aio import Ticks, cancel
from shared.model import Instant
from shared.names import CONTROL_CONFIGMAP, NAMESPACE
from tests.deploy.manifests import DEPLOY

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "policy"
PLAYED = (
    "a-failed-pod-costs-a-retry",
    "a-new-leader-deletes-nothing-twice",
    "release-after-the-hold-down",
    "the-infer-operator-is-told",
)
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
NAMED = ("configmaps", "leases", "services")
"""Kinds of which single objects are meant, and so have to be named in the rights."""
ANY = "*"
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
T0 = Instant(1000.0, 1_790_000_000.0)


class Right(NamedTuple):
    """One verb on one kind (`nodes/status`), in a namespace and of a name, or of any."""

    group: str
    resource: str
    verb: str
    namespace: str
    name: str


def granted(file: Path = DEPLOY / "rbac.yaml") -> list[Right]:
    roles = [obj for obj in yaml.safe_load_all(file.read_text()) if "rules" in obj]
    return [
        Right(group, resource, verb, role["metadata"].get("namespace", ANY), name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [ANY])
    ]


def covers(right: Right, need: Right) -> bool:
    return right[:3] == need[:3] and right.namespace in (ANY, need.namespace) and right.name in (ANY, need.name)


def needs_of(call: Call) -> Iterator[Right]:
    """What RBAC asks for a call. An apply may create."""
    target = parse_path(call.path, (*RESOURCES, LEASES))
    resource = "/".join(part for part in (target.resource.plural, target.subresource) if part)
    named = target.resource.plural in NAMED and target.name
    for verb in (VERBS[call.method], *(["create"] if call.content_type == APPLY_PATCH else [])):
        yield Right(target.resource.group, resource, verb, target.namespace or ANY, target.name if named else ANY)


def drive(step: Step, answer: Callable[[Call], Reply]) -> list[Call]:
    """The calls of a step until it is over."""
    sent: list[Call] = []
    try:
        sent.append(next(step))
        while True:
            sent.append(step.send(answer(sent[-1])))
    except StopIteration:
        return sent


def played(monkeypatch: pytest.MonkeyPatch, *, conflicts: bool) -> list[Call]:
    """What the warden sends in the scenarios. conflicts: the first write of each kind in each is answered so."""
    sent: list[Call] = []
    answered: set[tuple[str, str]] = set()
    really = Warden._send

    def send(warden: Warden, call: Call) -> Reply:
        sent.append(call)
        kind = (call.method, call.path.rpartition("/")[0])
        if conflicts and call.method != "GET" and kind not in answered:
            answered.add(kind)
            return Reply(409, {"reason": "Conflict"})
        return really(warden, call)

    with monkeypatch.context() as patched:
        patched.setattr(Warden, "_send", send)
        for name in PLAYED:
            path = SCENARIOS / f"{name}.yaml"
            answered.clear()
            scenario = convert(load(path), PolicyScenario)
            wrong = play(scenario, start(path.parent, scenario))
            assert conflicts or not wrong, wrong
    return sent


def unplayed() -> list[Call]:
    """Steps that scenarios are too short for: separated dies, old recoveries, an Event that is said again."""
    made = {"metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "1"}}

    def conflict_last(call: Call) -> Reply:
        last = call.method == "DELETE" or call.content_type == MERGE_PATCH
        return Reply(409) if last else Reply(200, made)

    separated = drive(keep_separations(KeepSeparations(None, {"die": "{}"}, ())), conflict_last)
    spec = RecoverySpec(WorkloadRef("v1", "Pod", "x", "u"), "n/x", "Pod", "force", Cause("Hardware"))
    old = Recovery(Meta(name="x", namespace="n", uid="u"), spec)
    removed = drive(prune(Prune(old)), conflict_last)
    book = EventBook(T0)
    said: list[Call] = []
    for _ in range(2):
        assert book.say(event("Node", "", "a", "u", "NPUIsolated", "why", "Warning", T0), T0)
        written = book.next(T0)
        assert written is not None
        said.append(written[1])
        book.settle(*written, Reply(200), T0)
    return [*separated, *removed, *said]


async def of_the_lease() -> list[Call]:
    """Made, renewed, and handed over."""
    store, sent, renewed = Store(lambda: T0.wall), [], asyncio.Event()
    store.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})

    class Sender:
        async def send(self, call: Call, *, timeout_s: float) -> Reply:
            sent.append(call)
            if call.method == "PUT":
                renewed.set()
            answer = store.request(call.method, call.path, body=call.body, content_type=call.content_type)
            return Reply(answer.status, answer.body)

    async def lead() -> None:
        await asyncio.Event().wait()

    lease = Lease(Sender(), "me", Metrics(), Ticks(), renew_s=0.01)
    running = asyncio.create_task(lease.run(lead))
    async with asyncio.timeout(10):
        await renewed.wait()
    await cancel(running)
    return sent


def watched() -> Iterator[Right]:
    for row in WATCHED:
        for verb in ("list", "watch"):
            yield Right(row.group, row.plural, verb, row.namespace or ANY, row.name or ANY)


def fresh_looks() -> Iterator[Right]:
    """Before a delete each owner of the unit is read once more, whatever its kind."""
    for row in OWNERS:
        yield Right(row.group, row.plural, "get", ANY, ANY)


async def needed(monkeypatch: pytest.MonkeyPatch) -> set[Right]:
    calls = [*played(monkeypatch, conflicts=False), *played(monkeypatch, conflicts=True), *unplayed()]
    calls += await of_the_lease()
    calls.append(Call("GET", Wish(PAUSE, CONTROL_CONFIGMAP).path))  # who has paused it, told by reconciler/wishes.py
    return {need for call in calls for need in needs_of(call)} | set(watched()) | set(fresh_looks())


async def test_nothing_is_missing_and_nothing_is_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    needs, rights = await needed(monkeypatch), granted()
    assert [need for need in sorted(needs) if not any(covers(right, need) for right in rights)] == []
    unused = [r for r in rights if not any(covers(r, need) and r.name in (ANY, need.name) for need in needs)]
    assert unused == []


def test_no_right_to_all_objects_where_one_is_meant() -> None:
    """Except: rank tables have one label and many names, and a create has no name to be held to."""
    wide = {(r.resource, r.verb) for r in granted() if r.resource in NAMED and r.name == ANY}
    assert wide == {("configmaps", "list"), ("configmaps", "watch"), ("leases", "create")}
