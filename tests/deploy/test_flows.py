"""Every flow that a NetworkPolicy lets through, as a list: a new one has to be written down here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import Object, documents, render

Flow = tuple[str, str, str, str]
ANYWHERE = "0.0.0.0/0 ::/0"
DNS = "kube-system 169.254.20.10/32"
"""The cluster's DNS and the cache of the node."""
BASE = {
    "reconciler-to-dns": ("npuwarden-reconciler", "to", DNS, "UDP/53 TCP/53"),
    "reconciler-to-api-server": ("npuwarden-reconciler", "to", "", "TCP/443 TCP/6443"),
    "reconciler-to-redis": ("npuwarden-reconciler", "to", "npuwarden-redis", "TCP/6379"),
    "readers-to-reconciler": ("npuwarden-reconciler", "from", "npuwarden.io/reads", "TCP/9466"),
    "api-server-to-reconciler": ("npuwarden-reconciler", "from", ANYWHERE, "TCP/9466"),
    "reconciler-and-agents-to-redis": ("npuwarden-redis", "from", f"npuwarden-reconciler {ANYWHERE}", "TCP/6379"),
}
"""Whom it selects, the direction, the other side ("" = any address, of the ports alone), the ports."""
OWN_REDIS = {"reconciler-to-redis": ("npuwarden-reconciler", "to", "", "TCP/6379 TCP/26379")}


def flow(policy: Object) -> Flow:
    spec = policy["spec"]
    (direction,) = spec["policyTypes"]
    way = {"Egress": "to", "Ingress": "from"}[direction]
    rules = spec[direction.lower()]
    sides = [_side(peer) for rule in rules for peer in rule.get(way, ())]
    ports = dict.fromkeys(f"{port['protocol']}/{port['port']}" for rule in rules for port in rule["ports"])
    return spec["podSelector"]["matchLabels"]["app.kubernetes.io/name"], way, " ".join(sides), " ".join(ports)


def _side(peer: Object) -> str:
    if "ipBlock" in peer:
        return str(peer["ipBlock"]["cidr"])
    selectors = [peer[kind].get("matchLabels", {}) for kind in ("namespaceSelector", "podSelector") if kind in peer]
    ((key, value),) = [label for labels in selectors for label in labels.items()]
    return str(value) if key in ("kubernetes.io/metadata.name", "app.kubernetes.io/name") else str(key)


def flows(objects: list[Object]) -> Iterator[tuple[str, Flow]]:
    for obj in objects:
        if obj["kind"] == "NetworkPolicy" and obj["spec"]["podSelector"]:
            yield obj["metadata"]["name"], flow(obj)


def test_the_flows_are_these() -> None:
    assert dict(flows(documents())) == BASE


def test_every_flow_has_ports() -> None:
    for obj in documents():
        if obj["kind"] == "NetworkPolicy":
            for rule in (*obj["spec"].get("egress", ()), *obj["spec"].get("ingress", ())):
                assert rule["ports"], obj["metadata"]["name"]


def test_redis_speaks_to_nobody() -> None:
    assert not [name for name, (who, way, *_) in BASE.items() if who == "npuwarden-redis" and way == "to"]


@pytest.mark.parametrize(
    ("components", "differ"),
    [(("redis-tls",), {}), (("observe-only", "mindcluster"), {}), (("existing-redis",), OWN_REDIS)],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_components_open_no_more(
    applied: ControlPlane, own_directory: Path, components: tuple[str, ...], differ: dict[str, Flow]
) -> None:
    found = dict(flows(render(applied, own_directory, *components)))
    gone = {"reconciler-and-agents-to-redis"} if differ else set()
    assert found == {name: flow for name, flow in (BASE | differ).items() if name not in gone}
