"""The rank table of a job: read leniently, believed only where it lists exactly the present pods."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import fold
from reconciler.core.objects import Pod, RingsConfig
from reconciler.core.ranktable import DEPLOY_SERVER_LABELS, RankTable, read, unlabelled, verify
from reconciler.core.state import World

NAME = "rings-config-server-0"
LABELS = {"jobID": "svc", "mx-consumer-cim": "true", DEPLOY_SERVER_LABELS[0]: "2"}
GROUP, SINGLE = DEPLOY_SERVER_LABELS


def config(hccl: Any, *, labels: dict[str, str] = LABELS, name: str = NAME, version: str = "5") -> dict[str, Any]:
    """hccl: the table, its text, or None for a ConfigMap without data."""
    data = None if hccl is None else {"hccl.json": hccl if isinstance(hccl, str) else json.dumps(hccl), "version": "0"}
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 1000}
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels, "annotations": annotations}
    return {"kind": "ConfigMap", "metadata": metadata | {"resourceVersion": version}, "data": data}


def table(hccl: Any, **more: Any) -> RankTable:
    return read(msgspec.convert(config(hccl, **more), RingsConfig))


def server(ip: str, key: str = "container_ip") -> dict[str, Any]:
    devices = [{"device_id": "0", "device_ip": "192.168.0.1", "rank_id": "0"}]
    return {"device": devices, "server_id": "10.0.0.1", "host_ip": "10.0.0.1", key: ip}


def hccl(*ips: str, status: str = "completed", count: Any = None) -> dict[str, Any]:
    servers = [server(ip) for ip in ips]
    return {"status": status, "server_list": servers, "server_count": count or str(len(ips)), "version": "1.0"}


def pods(*ips: str | None) -> list[Pod]:
    return [
        msgspec.convert({"metadata": {"name": f"p-{n}"}, "status": {"phase": "Running", "podIP": ip}}, Pod)
        for n, ip in enumerate(ips)
    ]


@pytest.mark.parametrize(
    ("text", "verdict", "says"),
    [
        (hccl("10.1.0.1", "10.1.0.2"), "complete", "all 2 pods"),
        (hccl("10.1.0.2", "10.1.0.1", count=2), "complete", "all 2 pods"),
        (hccl("10.1.0.1", "10.1.0.2", status="initializing"), "stale", "initializing"),
        (hccl("10.1.0.1", "10.1.0.9"), "stale", "10.1.0.9"),
        (hccl("10.1.0.8", "10.1.0.9"), "stale", "10.1.0.8, 10.1.0.9"),
        (hccl("10.1.0.1"), "stale", "does not list 10.1.0.2"),
        (hccl("10.1.0.1", "10.1.0.2", count="3"), "stale", "server_count 3"),
        (hccl("10.1.0.1", "10.1.0.2", "10.1.0.2"), "stale", "3 listed"),
        (hccl("10.1.0.1", ""), "stale", "an empty address"),
        ({"status": "completed", "server_list": [], "server_count": "0"}, "stale", "does not list"),
        ({"status": "completed"}, "stale", "does not list"),
        ({"status": "initializing"}, "empty", "until it restarts"),
        ({}, "empty", "lists no server"),
        ("", "empty", "lists no server"),
        (None, "empty", "lists no server"),
        ("{half", "empty", "no rank table"),
        ('{"server_list": 5}', "empty", "no rank table"),
        ('["completed"]', "empty", "no rank table"),
    ],
)
def test_only_a_table_of_exactly_the_present_pods_is_complete(text: Any, verdict: str, says: str) -> None:
    found = verify(table(text), pods("10.1.0.1", "10.1.0.2"))
    assert found.verdict == verdict
    assert says in found.message
    assert NAME in found.message


@pytest.mark.parametrize(
    ("listed", "present", "verdict"),
    [
        (("10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), "complete"),
        (("10.0.0.1",), ("10.0.0.1", "10.0.0.1"), "stale"),
        (("10.0.0.1", "10.0.0.1", "10.0.0.2"), ("10.0.0.1", "10.0.0.2", "10.0.0.2"), "stale"),
    ],
)
def test_pods_on_the_hosts_network_share_an_address_and_each_is_listed(
    listed: tuple[str, ...], present: tuple[str, ...], verdict: str
) -> None:
    """The operator lists a server for each pod, not for each node."""
    assert verify(table(hccl(*listed)), pods(*present)).verdict == verdict


def test_either_name_of_the_address_is_read() -> None:
    text = {"status": "completed", "server_list": [server("10.1.0.1", "server_ip")], "server_count": "1"}
    assert verify(table(text), pods("10.1.0.1")).verdict == "complete"


def test_a_pod_without_an_address_is_listed_nowhere() -> None:
    found = verify(table(hccl("10.1.0.1", "10.1.0.2")), pods("10.1.0.1", None))
    assert found.verdict == "stale"
    assert verify(table(hccl("10.1.0.1")), pods("10.1.0.1", None)).message.count("(none yet) of p-1") == 1


@given(st.sets(st.integers(1, 8), min_size=1), st.lists(st.integers(1, 8), min_size=1), st.booleans())
def test_complete_means_each_pod_once_and_nobody_else(present: set[int], listed: list[int], done: bool) -> None:
    text = hccl(*(f"10.1.0.{n}" for n in listed), status="completed" if done else "initializing")
    found = verify(table(text), pods(*(f"10.1.0.{n}" for n in present)))
    assert (found.verdict == "complete") == (done and sorted(listed) == sorted(present))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (LABELS, None),
        ({"jobID": "svc", "mx-consumer-cim": "true", SINGLE: "0"}, None),
        ({"jobID": "svc", "mx-consumer-cim": "true"}, "neither"),
        (LABELS | {SINGLE: "0"}, "both"),
        ({"jobID": "svc", GROUP: "1"}, "mx-consumer-cim"),
        (LABELS | {"mx-consumer-cim": "yes"}, "mx-consumer-cim"),
    ],
)
def test_labels_that_keep_clusterd_from_using_it_are_said(labels: dict[str, str], says: str | None) -> None:
    found = unlabelled(table(hccl("10.1.0.1"), labels=labels))
    assert (found is None) if says is None else (found is not None and says in found)


def test_the_world_keeps_of_a_config_map_only_what_is_verified() -> None:
    world = World()
    fold.observe(world, "RingsConfig", "set", config(hccl("10.1.0.1")))
    kept = world.rank_tables[f"ml/{NAME}"]
    assert (kept.status, kept.addresses, kept.metadata.annotations) == ("completed", ("10.1.0.1",), {})
    assert len(msgspec.json.encode(kept)) < 400


def test_other_config_maps_with_a_job_id_are_left_out() -> None:
    world = World()
    fold.observe(world, "RingsConfig", "set", config(None, name="job-summary-server-0"))
    fold.replace_all(world, "RingsConfig", [config(None, name="something"), config(None)])
    assert list(world.rank_tables) == [f"ml/{NAME}"]


def test_it_follows_its_config_map() -> None:
    world = World()
    fold.observe(world, "RingsConfig", "set", config(hccl("10.1.0.1")))
    fold.observe(world, "RingsConfig", "set", config(hccl("10.1.0.9"), version="4"))
    assert world.rank_tables[f"ml/{NAME}"].addresses == ("10.1.0.1",), "an older version came late"
    fold.observe(world, "RingsConfig", "set", config(hccl("10.1.0.2"), version="6"))
    assert world.snapshot().rank_tables[f"ml/{NAME}"].addresses == ("10.1.0.2",)
    fold.observe(world, "RingsConfig", "gone", config(hccl("10.1.0.2"), version="7"))
    assert not world.rank_tables
