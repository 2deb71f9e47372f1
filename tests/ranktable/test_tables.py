"""What a global rank table says: golden tables, who is left out, and what keeps one from being published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import fold
from reconciler.core.state import World
from reconciler.ranktable import schema
from reconciler.ranktable.checks import refused
from reconciler.ranktable.instances import CONFIGURATION
from reconciler.ranktable.schema import GroupIds, assign
from shared.model import Chip
from tests.core.worlds import hear, report, world_of
from tests.ranktable.service import CONFIGMAP, DEPLOY, groups, instance, manager, managers, rings, service

MANAGERS: list[dict[str, Any]] = [
    {
        "group_id": "0",
        "server_count": "2",
        "server_list": [
            {"server_id": "10.0.0.1", "server_ip": "10.244.0.1"},
            {"server_id": "10.0.0.1", "server_ip": "10.244.0.2"},
        ],
    },
    {"group_id": "1", "server_count": "1", "server_list": [{"server_id": "10.0.0.1", "server_ip": "10.244.0.3"}]},
]


def table_of(world: World) -> Any:
    found = world.snapshot().services[CONFIGMAP]
    assert found.table is not None, found.why
    return json.loads(schema.text_of(found.table))


def why(world: World) -> str:
    found = world.snapshot().services[CONFIGMAP]
    assert found.table is None
    return found.why


def observe(world: World, *objects: dict[str, Any], change: str = "set") -> None:
    for obj in objects:
        fold.observe(world, obj["kind"], change, obj)


def test_a2_two_instances() -> None:
    server = {"server_id": "10.0.1.0", "server_ip": "10.244.2.0"}
    decode = [
        {"device_id": "0", "device_ip": "192.168.0.0", "rank_id": "0", "device_logical_id": "0"},
        {"device_id": "1", "device_ip": "192.168.0.1", "rank_id": "1", "device_logical_id": "1"},
    ]
    second = [
        {"device_id": "0", "device_ip": "192.168.1.0", "rank_id": "2", "device_logical_id": "0"},
        {"device_id": "1", "device_ip": "192.168.1.1", "rank_id": "3", "device_logical_id": "1"},
    ]
    prefill = [
        {"server_id": "10.0.1.0", "server_ip": "10.244.1.0", "device": decode},
        {"server_id": "10.0.1.1", "server_ip": "10.244.1.1", "device": second},
    ]
    assert table_of(service()) == {
        "version": "1.0",
        "status": "completed",
        "server_group_list": [
            *MANAGERS,
            {"group_id": "2", "deploy_server": "1", "server_count": "1", "server_list": [server | {"device": decode}]},
            {"group_id": "3", "deploy_server": "2", "server_count": "2", "server_list": prefill},
        ],
    }


def test_a3_one_instance_has_super_devices_and_super_pods() -> None:
    world = world_of([*managers(), *instance("p", "10.244.1.0"), rings("p", "10.244.1.0", a3=True, chips=1)])
    device = {"device_id": "0", "device_ip": "192.168.0.0", "rank_id": "0", "device_logical_id": "0"}
    assert table_of(world) == {
        "version": "1.2",
        "status": "completed",
        "server_group_list": [
            *MANAGERS,
            {
                "group_id": "2",
                "deploy_server": "2",
                "server_count": "1",
                "server_list": [
                    {
                        "server_id": "10.0.1.0",
                        "server_ip": "10.244.1.0",
                        "device": [device | {"super_device_id": "1000"}],
                    }
                ],
                "super_pod_list": [{"super_pod_id": "0", "server_list": [{"server_id": "10.0.1.0"}]}],
            },
        ],
    }


def test_instances_of_one_server_share_a_group() -> None:
    labels = {"grt-server/deploy-server": "0"}
    world = world_of(
        [
            *managers(),
            *instance("a", "10.244.1.0"),
            *instance("b", "10.244.2.0"),
            rings("a", "10.244.1.0", labels=labels),
            rings("b", "10.244.2.0", labels=labels),
        ]
    )
    last = table_of(world)["server_group_list"][2:]
    assert [(group["group_id"], group["server_count"], "deploy_server" in group) for group in last] == [
        ("2", "2", False)
    ]
    assert [(s["server_ip"], s["deploy_server"]) for s in last[0]["server_list"]] == [
        ("10.244.1.0", "0"),
        ("10.244.2.0", "0"),
    ]


def test_an_instance_that_is_gone_and_back_keeps_its_group() -> None:
    world = service()
    pods = instance("llm-decode", "10.244.2.0")[1:]
    assert groups(world.snapshot()) == {
        0: ["10.244.0.1", "10.244.0.2"],
        1: ["10.244.0.3"],
        2: ["10.244.2.0"],
        3: ["10.244.1.0", "10.244.1.1"],
    }
    observe(world, *pods, change="gone")
    assert groups(world.snapshot()).keys() == {0, 1, 3}
    observe(world, *instance("llm-decode", "10.244.9.9")[1:])
    assert groups(world.snapshot()).keys() == {0, 1, 3}, "the operator's list is the old one"
    observe(world, rings("llm-decode", "10.244.9.9", status="initializing", version="2"))
    assert groups(world.snapshot()).keys() == {0, 1, 3}
    observe(world, rings("llm-decode", "10.244.9.9", version="3"))
    assert groups(world.snapshot())[2] == ["10.244.9.9"]


def test_a_new_pod_with_the_old_address_is_not_taken_for_the_old_one() -> None:
    world = service()
    (pod,) = instance("llm-decode", "10.244.2.0")[1:]
    chips = [{"device_id": "5", "device_ip": "192.168.7.7"}]
    annotation = json.dumps({"host_ip": "10.0.1.9", "devices": chips})
    pod["metadata"] |= {"uid": "uid-new", "annotations": {CONFIGURATION: annotation}}
    observe(world, pod)
    assert 2 not in groups(world.snapshot())


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        (manager("coordinator", "10.244.0.1", None), "llm-coordinator-1 of mindie-ms-coordinator has no address"),
        (manager("controller", None), "llm-controller-0 of mindie-ms-controller has no address"),
        (manager("coordinator", "10.244.0.1", "10.244.0.2", "10.244.0.4"), "3 coordinators"),
        (manager("coordinator", "10.244.0.3"), "listed twice"),
        (managers() and manager("controller", "10.9.9.9", job_id="llm"), None),
    ],
)
def test_a_half_table_is_never_wanted(objects: list[dict[str, Any]], says: str | None) -> None:
    world = service(*objects)
    if says is None:
        assert table_of(world)
    else:
        assert says in why(world)


def test_without_a_complete_instance_or_a_coordinator_there_is_no_table() -> None:
    world = world_of([*managers(), *instance("p", "10.244.1.0"), rings("p", "10.244.1.0", status="initializing")])
    assert "no instance is complete" in why(world)
    world = world_of([*manager("controller", "10.244.0.3"), *instance("p", "10.244.1.0"), rings("p", "10.244.1.0")])
    assert "no pod of mindie-ms-coordinator" in why(world)


def test_jobs_without_a_controller_are_no_service() -> None:
    world = world_of([*instance("p", "10.244.1.0"), rings("p", "10.244.1.0")])
    assert world.snapshot().services == {}


def test_a_rank_table_without_the_services_label_is_named_as_one_that_nobody_sees() -> None:
    made = instance("llm-second", "10.244.3.0")
    for label in DEPLOY:
        del made[0]["metadata"]["labels"][label]
    found = service(*made).snapshot().services[CONFIGMAP]
    assert "rings-config-llm-second is not there, or has no label jobID" in found.left_out["llm-second"]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({}, "neither of the labels"),
        (DEPLOY | {"grt-server/deploy-server": "0"}, "both labels"),
        ({"grt-server/deploy-server": "0"}, "others of its service"),
    ],
)
def test_a_wrongly_labelled_instance_is_left_out_and_the_others_are_not(labels: dict[str, str], says: str) -> None:
    world = service(*instance("llm-second", "10.244.3.0"), rings("llm-second", "10.244.3.0", labels=labels))
    found = world.snapshot().services[CONFIGMAP]
    assert says in found.left_out["llm-second"]
    assert groups(world.snapshot()).keys() == {0, 1, 2, 3}


def test_an_instance_with_two_pods_on_one_hosts_network_is_left_out_and_says_so() -> None:
    made = instance("llm-second", "10.0.1.7", "10.0.1.7")
    found = service(*made, rings("llm-second", "10.0.1.7", "10.0.1.7")).snapshot()
    said = found.services[CONFIGMAP].left_out["llm-second"]
    assert "pods llm-second-0 and llm-second-1 have one address, 10.0.1.7" in said
    assert groups(found).keys() == {0, 1, 2, 3}, "the others are published"

    made[2]["status"]["podIP"] = "10.0.1.8"
    apart = service(*made, rings("llm-second", "10.0.1.7", "10.0.1.8")).snapshot()
    assert "llm-second" not in apart.services[CONFIGMAP].left_out
    assert ["10.0.1.7", "10.0.1.8"] in groups(apart).values()


def test_a_rank_table_nobody_fills_is_made_of_the_device_plugins_annotations() -> None:
    job, *pods = instance("p", "10.244.1.0", "10.244.1.1")
    for number, pod in enumerate(pods):
        chips = [{"device_id": "3", "device_ip": f"192.168.{number}.3"}]
        text = json.dumps({"host_ip": f"10.0.1.{number}", "super_pod_id": -1, "devices": chips})
        pod["metadata"]["annotations"][CONFIGURATION] = text
    world = world_of([*managers(), job, *pods])
    (group,) = table_of(world)["server_group_list"][2:]
    ranks = [(s["server_ip"], [(d["device_ip"], d["rank_id"]) for d in s["device"]]) for s in group["server_list"]]
    assert ranks == [("10.244.1.0", [("192.168.0.3", "0")]), ("10.244.1.1", [("192.168.1.3", "1")])]
    observe(world, pods[1], change="gone")
    assert "no instance is complete" in why(world), "half an instance"


@pytest.mark.parametrize(
    ("ip", "sdid", "complete"), [("192.168.4.4", None, True), (None, None, False), ("a", 7, False)]
)
def test_without_an_annotation_the_agents_know_the_chips_of_a2(
    ip: str | None, sdid: int | None, complete: bool
) -> None:
    job, pod = instance("p", "10.244.1.0")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"huawei.com/Ascend910": "1"}}
    world = world_of([*managers(), job, pod])
    chip = Chip(phy=4, health="ok", pods=(pod["metadata"]["uid"],), ip=ip, sdid=sdid)
    hear(world, report(pod["spec"]["nodeName"], chips=(chip,)))
    assert (2 in groups(world.snapshot())) == complete


def test_one_job_id_in_two_namespaces_is_ambiguous() -> None:
    world = service()
    for obj in manager("controller", "10.244.7.7"):
        obj["metadata"] |= {"namespace": "other", "uid": f"other-{obj['metadata']['uid']}"}
        observe(world, obj)
    assert "2 namespaces" in why(world)


@pytest.mark.parametrize(
    ("job_id", "named"),
    [("llm-7b.v2", True), ("0", True), ("LLM", False), ("llm_7b", False), ("llm..7b", False), ("llm-.7b", False)],
)
def test_a_job_id_that_makes_no_name_of_a_configmap_is_said_and_not_tried(job_id: str, named: bool) -> None:
    objects = [*managers(job_id), *instance("p", "10.244.1.0", job_id=job_id), rings("p", "10.244.1.0", job_id=job_id)]
    (found,) = world_of(objects).snapshot().services.values()
    assert (found.table is not None) == named
    assert ("makes no name of a ConfigMap" in found.why) != named


names = st.lists(st.sampled_from("abcdefgh"), unique=True).map(tuple)


@given(st.lists(names, max_size=12))
def test_a_group_id_never_has_a_second_job(history: list[tuple[str, ...]]) -> None:
    known = GroupIds()
    given_to: dict[int, str] = {}
    before: dict[str, int] = {}
    for jobs in history:
        known = assign(known, jobs)
        assert known.ids.keys() == set(jobs)
        assert all(known.ids[job] == number for job, number in before.items() if job in known.ids)
        for job, number in known.ids.items():
            if before.get(job) != number:
                assert number not in given_to, f"{number} was {given_to[number]}'s"
                given_to[number] = job
        before = dict(known.ids)
    fresh = [known.ids[job] for job in sorted(known.ids)]
    assert len(set(fresh)) == len(fresh)


addresses = st.sampled_from([None, *(f"10.244.0.{n}" for n in range(1, 12))])


@given(
    st.lists(addresses, min_size=0, max_size=3),
    st.lists(addresses, min_size=0, max_size=2),
    st.lists(
        st.tuples(
            st.lists(addresses, min_size=1, max_size=2),
            st.lists(addresses, min_size=1, max_size=2),
            st.sampled_from(["completed", "initializing"]),
            st.sampled_from([{}, DEPLOY, {"grt-server/deploy-server": "0"}]),
            st.integers(0, 130),
        ),
        max_size=3,
    ),
)
def test_what_is_wanted_passes_the_readers_checks(
    coordinators: list[str | None],
    controllers: list[str | None],
    jobs: list[tuple[list[str | None], list[str | None], str, dict[str, str], int]],
) -> None:
    objects = [*manager("coordinator", *coordinators), *manager("controller", *controllers)]
    for number, (pods, listed, status, labels, chips) in enumerate(jobs):
        objects += instance(f"s{number}", *pods)  # type: ignore[arg-type]
        objects.append(rings(f"s{number}", *listed, status=status, labels=labels, chips=chips))  # type: ignore[arg-type]
    found = world_of(objects).snapshot().services[CONFIGMAP]
    if found.table is None:
        assert found.why
        return
    assert refused(found.table) is None
    listed_groups = found.table.server_group_list
    assert 3 <= len(listed_groups) <= 98
    assert [g.group_id for g in listed_groups[:2]] == ["0", "1"]
    every = [server for group in listed_groups for server in group.server_list]
    assert len({server.server_ip for server in every}) == len(every)
    assert all(1 <= len(s.device) <= 128 for g in listed_groups[2:] for s in g.server_list)
    assert schema.read(schema.text_of(found.table)) == found.table
    present = {ip for ip in (*coordinators, *controllers) if ip} | {ip for pods, *_ in jobs for ip in pods if ip}
    assert found.table.addresses <= present
