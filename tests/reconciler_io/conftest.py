"""A lab API server and a client connected to it the way the daemon connects: by a kubeconfig."""

import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.kube.client import KubeClient, connected
from shared.names import NAMESPACE

Kubeconfig = Callable[[str], Path]


def node(name: str, **labels: str) -> dict[str, Any]:
    """A Ready node with eight NPUs."""
    npus = {"huawei.com/Ascend910": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": npus, "allocatable": npus, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture
def store() -> Store:
    """An empty cluster with the warden's namespace."""
    store = Store(time.time)
    store.load({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return store


@pytest.fixture
async def server(store: Store) -> AsyncIterator[ApiServer]:
    async with ApiServer(store) as server:
        yield server


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Kubeconfig:
    """``kubeconfig(url)`` writes one for a server without authentication."""

    def write(url: str) -> Path:
        path = tmp_path / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "clusters": [{"name": "lab", "cluster": {"server": url}}],
            "users": [{"name": "lab", "user": {"token": "none"}}],
        }
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    return write


@pytest.fixture
async def client(server: ApiServer, kubeconfig: Kubeconfig) -> AsyncIterator[KubeClient]:
    async with connected(str(kubeconfig(server.url))) as client:
        yield client
