"""A real API server takes the manifests, admits the pods they make, and its Pod Security holds."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import COMPONENTS, DEPLOY, Object, complaints, documents, find, kubectl, refused, render
from tests.waiting import wait_until


def test_what_is_applied_stands(applied: ControlPlane) -> None:
    assert len(kubectl(applied, "get", "-f", str(DEPLOY), "-o", "name").split()) == len(documents())


def test_plain_files_do_without_kustomize(applied: ControlPlane) -> None:
    said = kubectl(applied, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", str(DEPLOY))
    assert len(said.splitlines()) == len(documents())


@pytest.mark.parametrize("component", COMPONENTS)
def test_each_component_is_taken(applied: ControlPlane, own_directory: Path, component: str) -> None:
    render(applied, own_directory, component)
    kubectl(applied, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(own_directory))


TOGETHER = (
    ("observe-only", "mindcluster"),
    ("existing-redis", "mindcluster"),
    ("existing-redis", "observe-only", "drill"),
    ("redis-tls", "ranktable", "drill"),
    ("redis-tls-node-users", "redis-tls-cert-manager", "evidence", "webhook"),
)


@pytest.mark.parametrize("components", TOGETHER, ids="+".join)
def test_components_that_are_used_together_are_taken_and_warned_of_by_nobody(
    applied: ControlPlane, own_directory: Path, components: tuple[str, ...]
) -> None:
    """Pod Security says of a workload that its pods would violate `restricted` when it is applied."""
    render(applied, own_directory, *components)
    words = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(own_directory))
    assert "would violate" not in complaints(applied, *words)


@pytest.mark.parametrize("components", [(), *TOGETHER], ids=lambda names: "+".join(names) or "none")
def test_all_pods_but_the_agents_are_restricted(
    applied: ControlPlane, own_directory: Path, tmp_path: Path, components: tuple[str, ...]
) -> None:
    """Created as pods, for a workload is taken whatever it says of its pods."""
    for obj in render(applied, own_directory, *components):
        spec = obj.get("spec", {})
        template = spec.get("template") or spec.get("jobTemplate", {}).get("spec", {}).get("template")
        if obj["kind"] in ("Deployment", "StatefulSet", "CronJob"):
            assert template is not None
            assert obj["metadata"]["namespace"] == "npuwarden-system"
            pod = pod_of({"spec": {"template": template}}, "npuwarden-system")
            if "volumeClaimTemplates" in spec:
                pod["spec"]["volumes"].append({"name": "data", "emptyDir": {}})
            path = tmp_path / "pod.json"
            path.write_text(json.dumps(pod))
            kubectl(applied, "create", "--dry-run=server", "-f", str(path))


@pytest.mark.parametrize(
    "components",
    [
        ("node-users",),
        ("redis-tls-node-users",),
        ("redis-tls", "redis-tls-node-users"),
        ("existing-redis-node-users",),
        ("existing-redis", "existing-redis-node-users"),
    ],
    ids="+".join,
)
def test_with_users_of_nodes_the_password_is_the_nodes_own_and_redis_is_spoken_to_as_it_speaks(
    applied: ControlPlane, own_directory: Path, components: tuple[str, ...]
) -> None:
    objects = render(applied, own_directory, *components)
    said = tomllib.loads(find(objects, "ConfigMap", "npuwarden-agent")["data"]["agent.toml"])["redis"]
    assert said["username"] == "npuwarden-node-{node}"
    spec = find(objects, "DaemonSet", "npuwarden-agent")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["redis"] == {"name": "redis", "hostPath": {"path": "/etc/npu-warden/redis", "type": "Directory"}}
    mounts = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert {str(Path(said[key]).parent) for key in said if key.endswith("_file")} <= mounts
    ours = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("ConfigMap", "npuwarden-redis")]
    if ours:
        plain = "port 6379" in ours[0]["data"]["redis.conf"].splitlines()
        assert said["url"].partition(":")[0] == ("redis" if plain else "rediss")
    else:
        theirs = tomllib.loads(find(objects, "ConfigMap", "npuwarden-reconciler")["data"]["reconciler.toml"])["redis"]
        assert (said["url"], said["url"].partition(":")[0]) == (theirs["url"], "rediss+sentinel")


def test_all_three_images_are_pinned_by_their_digests(applied: ControlPlane, own_directory: Path) -> None:
    """As docs/install.md says it."""
    render(applied, own_directory)
    file, digest = own_directory / "kustomization.yaml", f"sha256:{'0' * 64}"
    names = ("localhost/npu-warden/agent", "localhost/npu-warden/reconciler", "docker.io/library/redis")
    images = [{"name": name, "newName": f"registry.example.com/{n}", "digest": digest} for n, name in enumerate(names)]
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"images": images}))
    objects = list(yaml.safe_load_all(kubectl(applied, "kustomize", str(own_directory))))
    pods = [obj["spec"]["template"]["spec"] for obj in objects if "template" in obj.get("spec", {})]
    found = {inside["image"] for pod in pods for inside in (*pod["containers"], *pod.get("initContainers", ()))}
    assert found == {f"registry.example.com/{n}@{digest}" for n in range(len(names))}


def test_before_1_30_everything_but_the_admission_policies_is_installed(
    applied: ControlPlane, own_directory: Path
) -> None:
    components = ("ranktable", "drill", "evidence")

    def rendered(*names: str) -> set[tuple[str, str]]:
        return {(obj["kind"], obj["metadata"]["name"]) for obj in render(applied, own_directory, *names)}

    taken_out = rendered(*components) - rendered(*components, "before-1.30")
    assert {kind for kind, _ in taken_out} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert len(taken_out) == 12
    assert not {kind for kind, _ in rendered(*components, "before-1.30")} & {kind for kind, _ in taken_out}


def test_restricted_pods_are_made_where_nothing_else_is_admitted(applied: ControlPlane) -> None:
    for name in ("deployments/npuwarden-reconciler", "statefulsets/npuwarden-redis"):
        path = f"/apis/apps/v1/namespaces/npuwarden-system/{name}"
        wait_until(f"pods of {name}", lambda path=path: _has_its_pods(applied.api.get(path)))  # type: ignore[misc]


def _has_its_pods(workload: Object) -> bool:
    return bool(workload["status"].get("replicas") == workload["spec"]["replicas"])


def pod_of(workload: Object, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": workload["spec"]["template"]["spec"],
    }


def test_a_privileged_pod_is_admitted_beside_the_agents_only(applied: ControlPlane, tmp_path: Path) -> None:
    agent = find(documents(), "DaemonSet", "npuwarden-agent")
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod_of(agent, "npuwarden-agent")))
    kubectl(applied, "create", "--dry-run=server", "-f", str(path))
    path.write_text(json.dumps(pod_of(agent, "npuwarden-system")))
    assert "violates PodSecurity" in refused(applied, "create", "--dry-run=server", "-f", str(path))


def recovery(**spec: Any) -> Object:
    whole: Object = {
        "workload": {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "a", "uid": "u"},
        "unit": "default/a",
        "level": "Job",
        "method": "force",
        "cause": {"kind": "Hardware"},
    }
    metadata = {"name": "one", "namespace": "default"}
    return {"apiVersion": "npuwarden.io/v1alpha1", "kind": "Recovery", "metadata": metadata, "spec": {**whole, **spec}}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({}, None),
        ({"targets": [{"pod": "a-0", "uid": "u", "chips": [1, 2]}]}, None),
        ({"level": "Cluster"}, "spec.level"),
        ({"method": "kill"}, "spec.method"),
        ({"cause": {}}, "spec.cause.kind"),
        ({"targets": [{"pod": "a-0"}]}, "spec.targets[0].uid"),
        ({"size": -1}, "spec.size"),
        ({"speling": "x"}, "speling"),
    ],
    ids=["least", "targets", "level", "method", "no cause", "a pod without uid", "size", "unknown field"],
)
def test_the_definition_takes_what_is_right_and_names_what_is_not(
    applied: ControlPlane, tmp_path: Path, spec: dict[str, Any], complaint: str | None
) -> None:
    path = tmp_path / "recovery.json"
    path.write_text(json.dumps(recovery(**spec)))
    words = ("create", "--dry-run=server", "-f", str(path))
    if complaint is None:
        assert "created" in kubectl(applied, *words)
    else:
        assert complaint in refused(applied, *words)
