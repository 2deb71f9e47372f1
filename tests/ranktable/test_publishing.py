"""When a table is published, what stands in its ConfigMap, and what a recovery waits for."""

from __future__ import annotations

import json

import msgspec
import pytest

from reconciler.core import fold
from reconciler.core.actions import PublishTable
from reconciler.core.calls import Reply
from reconciler.core.policy import Policy, RankTables
from reconciler.core.publishing import current, plan_tables, publication_of
from reconciler.core.recovery import Recovery
from reconciler.core.refusal_events import refusal_events, told
from reconciler.core.state import World
from reconciler.ranktable import schema
from tests.core.build import Object, node
from tests.core.worlds import T0, decide, reasons
from tests.ranktable.service import (
    CONFIGMAP,
    JOB_ID,
    groups,
    instance,
    manager,
    managers,
    recovery_of,
    rings,
    service,
    write,
)

ON, OFF = Policy(ranktable=RankTables("on")), Policy(ranktable=RankTables("off"))
CLUSTERD: Object = {"kind": "ClusterDService", "metadata": {"name": "clusterd-grpc-svc", "namespace": "mindx-dl"}}


def planned(world: World) -> list[PublishTable]:
    return [action for action in decide(world).actions if isinstance(action, PublishTable)]


def publish(world: World) -> PublishTable:
    (action,) = planned(world)
    _, outcome = write(world, action)
    assert outcome.done
    return action


def observe(world: World, *objects: Object, change: str = "set") -> None:
    for obj in objects:
        fold.observe(world, obj["kind"], change, obj)


def test_the_configmap_says_generation_digest_and_groups_and_ends_with_its_managers() -> None:
    world = service()
    (action,) = planned(world)
    (call,), outcome = write(world, action)
    assert (call.method, call.path) == ("POST", "/api/v1/namespaces/ml/configmaps")
    metadata = call.body["metadata"]
    assert metadata["name"] == "npuwarden-ranktable-llm"
    assert metadata["labels"] == {"jobID": JOB_ID}
    assert [owner["name"] for owner in metadata["ownerReferences"]] == ["llm-controller", "llm-coordinator"]
    text = call.body["data"]["global_ranktable.json"]
    annotations = metadata["annotations"]
    assert annotations[schema.GENERATION] == "1"
    assert annotations[schema.DIGEST] == schema.digest(text)
    assert json.loads(annotations[schema.GROUPS])["ids"] == {"llm-decode": 2, "llm-prefill": 3}
    assert outcome.done
    assert world.published[CONFIGMAP].data is not None


def test_what_has_not_changed_is_not_written_again() -> None:
    world = service()
    publish(world)
    assert planned(world) == []
    assert decide(world).tables == {JOB_ID: schema.text_of(world.snapshot().services[CONFIGMAP].table)}  # type: ignore[arg-type]


def test_an_instance_leaves_when_its_recovery_deletes_it_and_returns_to_its_group() -> None:
    world = service()
    publish(world)
    pods = instance("llm-decode", "10.244.2.0")[1:]
    observe(world, recovery_of("llm-decode", *pods))
    without = publish(world)
    assert without.version == "101"
    assert "10.244.2.0" not in without.text
    observe(world, *pods, change="gone")
    assert planned(world) == []
    (new,) = instance("llm-decode", "10.244.9.9")[1:]
    new["metadata"]["uid"] = "uid-new"
    observe(world, new, rings("llm-decode", "10.244.9.9", version="9"))
    again = publish(world)
    assert again.annotations[schema.GENERATION] == "3"
    assert groups(world.snapshot())[2] == ["10.244.9.9"]


def test_a_removed_job_and_a_new_one_do_not_share_a_group() -> None:
    world = service()
    publish(world)
    gone = instance("llm-decode", "10.244.2.0")
    observe(world, *gone, change="gone")
    publish(world)
    observe(world, *instance("llm-added", "10.244.4.0"), rings("llm-added", "10.244.4.0"))
    publish(world)
    assert groups(world.snapshot()).keys() == {0, 1, 3, 4}


def test_while_there_is_no_whole_table_the_last_one_stays_and_nobody_new_is_told() -> None:
    world = service()
    publish(world)
    observe(world, *manager("coordinator", "10.244.0.1", None))
    decided = decide(world)
    assert planned(world) == []
    assert decided.tables == {}
    assert "global-table" in reasons(decided, "ml/llm-controller")


def test_a_text_that_somebody_changed_is_written_anew() -> None:
    world = service()
    action = publish(world)
    held = world.published[CONFIGMAP]
    assert held.data is not None
    world.published[CONFIGMAP] = msgspec.structs.replace(
        held, data=msgspec.structs.replace(held.data, global_ranktable="{}")
    )
    assert decide(world).tables == {}
    (repaired,) = planned(world)
    assert (repaired.text, repaired.annotations[schema.GENERATION]) == (action.text, "2")


@pytest.mark.parametrize(
    ("policy", "clusterd", "made"),
    [
        (Policy(), False, True),
        (Policy(), True, False),
        (ON, True, True),
        (OFF, False, False),
        (Policy(observe_only=True), False, False),
    ],
)
def test_who_makes_the_table(policy: Policy, clusterd: bool, made: bool) -> None:
    world = service()
    world.policy = policy
    if clusterd:
        observe(world, CLUSTERD)
    assert bool(planned(world)) == made


def test_clusterd_may_come_and_go_and_the_wardens_own_service_is_not_it() -> None:
    world = service()
    own = {"kind": "ClusterDService", "metadata": CLUSTERD["metadata"] | {"labels": {fold.PART_OF: "npu-warden"}}}
    taken_over = {**own, "spec": {"selector": {"app": "clusterd"}}}
    for objects, expected in (([CLUSTERD], False), ([own], True), ([taken_over], False), ([own], True), ([], True)):
        fold.replace_all(world, "ClusterDService", objects)
        assert bool(planned(world)) == expected
    observe(world, CLUSTERD)
    observe(world, CLUSTERD, change="gone")
    assert planned(world)


def test_an_old_view_publishes_nothing() -> None:
    world = service()
    world.watch_ok = False
    assert list(plan_tables(world.snapshot())) == []
    assert current(world.snapshot()) == {}


def test_of_two_leaders_one_is_refused_and_reads_what_stands() -> None:
    world, other = service(), service()
    (action,) = planned(other)
    write(other, action)
    stands: Object = {"metadata": {"name": "npuwarden-ranktable-llm", "namespace": "ml", "resourceVersion": "7"}}
    stands["data"] = {"global_ranktable.json": action.text}
    calls, outcome = write(world, planned(world)[0], Reply(409, {"reason": "AlreadyExists"}), Reply(200, stands))
    assert [call.method for call in calls] == ["POST", "GET"]
    assert not outcome.done
    assert planned(world) == [], "the other has written the same bytes"


def test_missing_rights_name_the_remedy() -> None:
    world = service()
    _, outcome = write(world, planned(world)[0], Reply(403, {"reason": "Forbidden"}))
    assert "deploy/components/ranktable" in outcome.message


def test_a_left_out_instance_is_told_on_its_job() -> None:
    world = service(*instance("llm-second", "10.244.3.0"), rings("llm-second", "10.244.3.0", labels={}))
    decided = decide(world)
    assert "deploy-server" in reasons(decided, "ml/llm-second")
    events = list(refusal_events(world.snapshot(), told(decided.holds).values(), T0))
    mine = [call.body for call in events if call.body["reason"] == "DeployServer"]
    assert [body["involvedObject"]["name"] for body in mine] == ["llm-second"]


def test_a_recovery_waits_until_the_table_with_its_pods_stands() -> None:
    world = service()
    job, *pods = instance("llm-decode", "10.244.9.9")

    def shown() -> tuple[bool, str] | None:
        state = world.snapshot()
        mine = [pod for pod in state.pods.values() if pod.metadata.name.startswith("llm-decode")]
        found = publication_of(state, state.owners.get(job["metadata"]["uid"]), mine)
        return None if found is None else (found.done, found.message)

    assert shown() is None, "nothing was ever published"
    publish(world)
    assert (shown() or (False, ""))[0]
    observe(world, *pods)
    assert shown() == (False, "the global rank table of llm does not list 10.244.9.9 yet")
    observe(world, rings("llm-decode", "10.244.9.9", version="9"))
    assert "is not written yet" in (shown() or (True, ""))[1]
    publish(world)
    assert shown() == (
        True,
        "global rank table of llm, generation 2: whether it was consumed cannot be seen",
    )
    world.policy = OFF
    assert shown() is None


def test_the_recovery_says_published_and_not_consumed() -> None:
    world = service()
    publish(world)
    pods = instance("llm-decode", "10.244.2.0")[1:]
    recovery = recovery_of("llm-decode", {"metadata": {"name": pods[0]["metadata"]["name"], "uid": "old"}})
    recovery["spec"]["size"] = 1
    recovery["status"] = {"phase": "Recreating", "holder": "me", "times": {"ready": "2027-01-15T08:00:00Z"}}
    pods[0]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    hosts = {pod.node for pod in world.pods.values() if pod.node}
    observe(world, *(node(host) for host in hosts), recovery, pods[0])
    (progress,) = [a for a in decide(world).actions if a.key == "Recovery/ml/llm-decode-r"]
    status: Recovery = progress.status  # type: ignore[union-attr, assignment]
    assert status.phase == "Recovered", status.message  # type: ignore[attr-defined]
    assert [(c.type, c.reason) for c in status.conditions] == [("RankTablePublished", "Published")]  # type: ignore[attr-defined]


def test_managers_alone_are_never_published() -> None:
    world = World(policy=ON)
    for obj in managers():
        fold.observe(world, obj["kind"], "set", obj)
    assert planned(world) == []
