"""The manifests by themselves: complete, consistent, no right more than said, configuration that the daemons accept."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import load
from reconciler.config import PolicyFile, load_config
from shared.names import LEASE, NAMESPACE
from tests.deploy.manifests import DEPLOY, Object, documents, find

OBJECTS = documents()
AGENT = find(OBJECTS, "DaemonSet", "npuwarden-agent")["spec"]
RECONCILER = find(OBJECTS, "Deployment", "npuwarden-reconciler")["spec"]
REDIS = find(OBJECTS, "StatefulSet", "npuwarden-redis")["spec"]
WORKLOADS = [obj for obj in OBJECTS if obj["kind"] in ("DaemonSet", "Deployment", "StatefulSet")]


def pod(workload: Object) -> Object:
    spec: Object = workload["template"]["spec"]
    return spec


def container(workload: Object) -> Object:
    (only,) = pod(workload)["containers"]
    assert isinstance(only, dict)
    return only


def test_kustomize_takes_every_file() -> None:
    listed = yaml.safe_load((DEPLOY / "Kustomization").read_text())["resources"]
    assert sorted(listed) == sorted(path.name for path in DEPLOY.glob("*.yaml"))


def test_a_namespace_comes_before_what_is_in_it() -> None:
    seen: set[str] = set()
    for obj in OBJECTS:
        if obj["kind"] == "Namespace":
            seen.add(obj["metadata"]["name"])
        namespace = obj["metadata"].get("namespace")
        assert namespace is None or namespace in seen, f"{obj['kind']}/{obj['metadata']['name']}"
    assert NAMESPACE in seen


def test_no_two_objects_have_one_name() -> None:
    names = [(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in OBJECTS]
    assert len(names) == len(set(names))


def test_the_agents_configuration_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(find(OBJECTS, "ConfigMap", "npuwarden-agent")["data"]["agent.toml"])
    config = load(path)
    mounts = {mount["mountPath"] for mount in container(AGENT)["volumeMounts"]}
    assert config.paths.state_dir in mounts
    assert config.paths.config_dir in mounts
    assert config.redis.password_file is not None
    assert str(Path(config.redis.password_file).parent) in mounts
    assert config.http.listen == f":{container(AGENT)['ports'][0]['containerPort']}"


def test_the_reconcilers_configuration_is_accepted(tmp_path: Path) -> None:
    data = find(OBJECTS, "ConfigMap", "npuwarden-reconciler")["data"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    config = load_config(tmp_path / "reconciler.toml")
    assert not PolicyFile(config.policy).policy.observe_only
    mounts = {mount["mountPath"] for mount in container(RECONCILER)["volumeMounts"]}
    assert config.redis.password_file is not None
    assert str(Path(config.redis.password_file).parent) in mounts
    assert config.kube.namespace == NAMESPACE
    assert config.http.listen == f":{container(RECONCILER)['ports'][0]['containerPort']}"


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda obj: str(obj["metadata"]["name"]))
def test_every_pod_is_probed_bounded_and_read_only(workload: Object) -> None:
    inside = container(workload["spec"])
    assert inside["securityContext"]["readOnlyRootFilesystem"] is True
    assert inside["livenessProbe"]
    assert inside["readinessProbe"]
    assert inside["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert "memory" in inside["resources"]["limits"]
    assert pod(workload["spec"])["priorityClassName"]
    assert ":" in inside["image"]
    assert not inside["image"].endswith(":latest")


def test_only_the_reconciler_has_credentials_of_kubernetes() -> None:
    assert pod(AGENT)["automountServiceAccountToken"] is False
    assert pod(REDIS)["automountServiceAccountToken"] is False
    assert find(OBJECTS, "ServiceAccount", "npuwarden-agent")["automountServiceAccountToken"] is False
    subjects = [s for obj in OBJECTS for s in obj.get("subjects", ())]
    assert {(s["kind"], s["namespace"], s["name"]) for s in subjects} == {
        ("ServiceAccount", NAMESPACE, "npuwarden-reconciler")
    }


def test_there_is_one_agent_on_every_npu_node_whatever_its_taints() -> None:
    assert pod(AGENT)["tolerations"] == [{"operator": "Exists"}]
    assert AGENT["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    assert pod(AGENT)["hostPID"]
    assert pod(AGENT)["hostNetwork"]


def test_redis_is_kept_off_exactly_the_nodes_that_have_agents() -> None:
    wanted = _terms(pod(AGENT)["affinity"])
    away = _terms(pod(REDIS)["affinity"])
    opposite = {"In": ("NotIn", "DoesNotExist")}
    assert {term[0]["key"] for term in wanted} == {each["key"] for each in away[0]}
    assert len(away) == 1, "terms are alternatives: only within one all of them hold"
    assert all(each["operator"] in opposite["In"] for each in away[0])
    (accelerators,) = (each["values"] for term in wanted for each in term if each["key"] == "accelerator")
    (kept_off,) = (each["values"] for each in away[0] if each["key"] == "accelerator")
    assert accelerators == kept_off


def _terms(affinity: Object) -> list[list[dict[str, Any]]]:
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchExpressions"] for term in required["nodeSelectorTerms"]]


def test_the_driver_and_the_configuration_cannot_be_written() -> None:
    volumes = {volume["name"]: volume for volume in pod(AGENT)["volumes"]}
    writable = {m["name"] for m in container(AGENT)["volumeMounts"] if not m.get("readOnly")}
    of_the_host = {volumes[name]["hostPath"]["path"] for name in writable if "hostPath" in volumes[name]}
    assert of_the_host == {"/var/lib/npu-warden", "/dev"}


def test_everything_is_denied_and_every_pod_has_its_flows() -> None:
    policies = [obj for obj in OBJECTS if obj["kind"] == "NetworkPolicy"]
    denied = {p["metadata"]["namespace"] for p in policies if p["spec"]["podSelector"] == {}}
    assert denied == {NAMESPACE, "npuwarden-agent"}
    for policy in policies:
        if policy["spec"]["podSelector"] == {}:
            assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
            assert not policy["spec"].keys() & {"ingress", "egress"}
    selected = {
        policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
        for policy in policies
        if policy["spec"]["podSelector"]
    }
    assert selected == {"npuwarden-reconciler", "npuwarden-redis"}


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "NetworkPolicy"])
def test_what_selects_pods_selects_some(kind: str) -> None:
    labels = [(obj["metadata"]["namespace"], obj["spec"]["template"]["metadata"]["labels"]) for obj in WORKLOADS]
    for obj in (one for one in OBJECTS if one["kind"] == kind):
        selector = obj["spec"].get("podSelector", obj["spec"].get("selector"))
        wanted = (selector.get("matchLabels", {}) if kind != "Service" else selector).items()
        assert any(
            namespace == obj["metadata"]["namespace"] and wanted <= found.items() for namespace, found in labels
        ), obj["metadata"]["name"]


def test_what_pods_mount_is_there() -> None:
    """ConfigMaps that are not optional are in deploy/; Secrets are made by `npu-warden redis-acl secrets`."""
    made = {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in OBJECTS if obj["kind"] == "ConfigMap"}
    for workload in WORKLOADS:
        for volume in pod(workload["spec"])["volumes"]:
            source = volume.get("configMap")
            if source and not source.get("optional"):
                assert (workload["metadata"]["namespace"], source["name"]) in made


def test_the_lease_is_the_only_one_that_may_be_taken() -> None:
    role = find(OBJECTS, "Role", "npuwarden-reconciler")
    named = [r for r in role["rules"] if r["resources"] == ["leases"] and "create" not in r["verbs"]]
    assert [rule["resourceNames"] for rule in named] == [[LEASE]]
