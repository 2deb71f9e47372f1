"""Everything of deploy/ applied to the real control plane, once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.api import Api
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY, cert_manager, kubectl
from tests.integration.installation import ACCOUNT
from tests.waiting import wait_until

WORKLOADS = ("daemonset/npuwarden-agent", "deployment/npuwarden-reconciler", "statefulset/npuwarden-redis")


@pytest.fixture(scope="package")
def applied(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """By `kubectl apply -k`, twice as an upgrade does. The workloads go again: other tests have the same cluster."""
    for namespace in ("mindx-dl", "volcano-system", "cert-manager"):  # of others, some components write there
        if not control_plane.api.find(f"/api/v1/namespaces/{namespace}"):
            control_plane.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = tmp_path_factory.mktemp("applied") / "cert-manager.yaml"
    path.write_text(yaml.safe_dump_all(cert_manager()))
    kubectl(control_plane, "apply", "--server-side", "-f", str(path))
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=40s", "-f", str(path))
    for _ in range(2):
        kubectl(control_plane, "apply", "--server-side", "--force-conflicts", "-k", str(DEPLOY))
    wait_until("recoveries are served", lambda: "recoveries" in kubectl(control_plane, "api-resources", "-o", "name"))
    yield control_plane
    for workload in WORKLOADS:
        namespace = "npuwarden-agent" if workload.endswith("agent") else "npuwarden-system"
        kubectl(control_plane, "-n", namespace, "delete", "--wait=false", workload)
    for namespace in ("npuwarden-agent", "npuwarden-system"):
        kubectl(control_plane, "-n", namespace, "delete", "pod", "--all", "--force", "--grace-period=0")


@pytest.fixture(scope="package")
def as_reconciler(applied: ControlPlane) -> Api:
    """The API with a token of the reconciler's own service account, once its rights are in force."""
    api = Api(applied.url, applied.token_for("npuwarden-system", "npuwarden-reconciler"), applied.tls)
    assert (
        ACCOUNT
        in api.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )["status"]["userInfo"]["username"]
    )
    wait_until("the rights", lambda: _may_read(api))
    return api


def _may_read(api: Api) -> bool:
    return bool(api.get("/api/v1/nodes?limit=1"))


@pytest.fixture
def own_directory(tmp_path: Path) -> Path:
    return tmp_path / "mine"
