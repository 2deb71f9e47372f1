"""deploy/ as data, plain and as kustomize renders it, and kubectl."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.plane import ControlPlane

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPONENTS = sorted(path.name for path in (DEPLOY / "components").iterdir())
Object = dict[str, Any]


def documents() -> list[Object]:
    """All objects of `kubectl apply -f deploy/`, in its order."""
    return [obj for path in sorted(DEPLOY.glob("*.yaml")) for obj in yaml.safe_load_all(path.read_text()) if obj]


def patches(component: str) -> Iterator[Object]:
    """What a component lays over objects of deploy/, in files and in its kustomization; not JSON patches."""
    directory = DEPLOY / "components" / component
    for patch in yaml.safe_load((directory / "kustomization.yaml").read_text()).get("patches", ()):
        text = (directory / patch["path"]).read_text() if "path" in patch else patch["patch"]
        yield from (one for one in yaml.safe_load_all(text) if isinstance(one, dict))


def find(objects: list[Object], kind: str, name: str, namespace: str | None = None) -> Object:
    """The one object of that kind and name. namespace: None = whatever it is."""
    found = [
        obj
        for obj in objects
        if (obj["kind"], obj["metadata"]["name"]) == (kind, name)
        and namespace in (None, obj["metadata"].get("namespace"))
    ]
    assert len(found) == 1, f"{len(found)} objects {kind}/{name}"
    return found[0]


def cert_manager() -> Iterator[Object]:
    """Definitions of its kinds, as far as a component uses them."""
    for kind, scope in (("Certificate", "Namespaced"), ("ClusterIssuer", "Cluster")):
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {"group": "cert-manager.io", "scope": scope, "names": {"kind": kind, "plural": plural}}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.cert-manager.io"},
            "spec": {**spec, "versions": [version]},
        }


def kubectl(plane: ControlPlane, *words: str) -> str:
    """What it prints; AssertionError with its complaint when it fails."""
    done = _run(plane, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def complaints(plane: ControlPlane, *words: str) -> str:
    """What it warns of; it must not fail."""
    done = _run(plane, *words)
    assert done.returncode == 0, done.stderr
    return done.stderr


def refused(plane: ControlPlane, *words: str) -> str:
    """Its complaint; it must fail."""
    done = _run(plane, *words)
    assert done.returncode != 0, done.stdout
    return done.stderr


def render(plane: ControlPlane, directory: Path, *components: str) -> list[Object]:
    """deploy/ with components, by the kustomization that a user writes in a directory of their own."""
    directory.mkdir(exist_ok=True)
    up = "../" * (len(directory.resolve().parts) - 1)
    places = [f"{up}{(DEPLOY / 'components' / name).relative_to('/')}" for name in components]
    text = yaml.safe_dump({"resources": [f"{up}{DEPLOY.relative_to('/')}"], "components": places})
    (directory / "kustomization.yaml").write_text(text)
    return list(yaml.safe_load_all(kubectl(plane, "kustomize", str(directory))))


def _run(plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(plane.binaries / "kubectl"), "--kubeconfig", str(plane.kubeconfig), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
