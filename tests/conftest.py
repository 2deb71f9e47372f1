"""Fixtures every test may ask for: the control plane, nodes and a namespace in it, Redis, the shared directory.

A test that asks for the control plane or Redis gets its marker by itself: ``-m "not cluster and not redis"`` is right.
"""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.cluster import objects
from tests.cluster.plane import ControlPlane, build
from tests.redis_server import RedisServer
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
SKIP_CLUSTER = "NPUWARDEN_SKIP_CLUSTER"
BINARIES = pytest.StashKey[Path]()

# A run in the background of a script ignores SIGINT, and so would every command that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no counterexample.
settings.register_profile("npu-warden", deadline=None)
settings.load_profile("npu-warden")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "control_plane" in fixtures:
            item.add_marker("cluster")
        if "redis_server" in fixtures:
            item.add_marker("redis")
    # Last, so that everything quick has spoken before the control plane is built and started.
    items.sort(key=lambda item: item.get_closest_marker("cluster") is not None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Build before the first test that needs it, outside that test's time limit: the first build takes ten minutes."""
    needed = item.get_closest_marker("cluster") is not None and not os.environ.get(SKIP_CLUSTER)
    if needed and BINARIES not in item.config.stash:
        capture = item.config.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():  # minutes of silence look like a hang
                item.config.stash[BINARIES] = build()
        except RuntimeError as exc:
            pytest.exit(str(exc), returncode=1)
    return (yield)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The one control plane of this run; shared, so a test keeps to its own ``namespace`` and its own ``nodes``."""
    if os.environ.get(SKIP_CLUSTER):
        pytest.skip(f"{SKIP_CLUSTER} is set")
    if BINARIES not in pytestconfig.stash:
        pytest.fail("a test that gets control_plane by name (getfixturevalue) must be marked `cluster` itself")
    plane = ControlPlane(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("plane"))
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test alone; its name is also the label value that keeps the test's pods on its nodes."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.api.delete(f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


MakeNode = Callable[..., dict[str, Any]]


@pytest.fixture
def make_node(control_plane: ControlPlane, namespace: str) -> Iterator[MakeNode]:
    """``make_node("a", npus=8)`` makes node ``<namespace>-a``, labelled ``test: <namespace>``, and waits for Ready."""
    made: list[str] = []

    def make(name: str, *, npus: int = 8, labels: dict[str, str] | None = None) -> dict[str, Any]:
        full = f"{namespace}-{name}"
        path = f"/api/v1/nodes/{full}"
        control_plane.api.post(
            "/api/v1/nodes", objects.node(full, npus=npus, labels={"test": namespace, **(labels or {})})
        )
        made.append(path)
        wait_until(f"node {full} Ready", lambda: _schedulable(control_plane.api.get(path)))
        ready: dict[str, Any] = control_plane.api.get(path)
        return ready

    yield make
    for path in made:
        if control_plane.api.find(path):  # the test may have deleted it
            control_plane.api.delete(path)


def _schedulable(node: dict[str, Any]) -> bool:
    """Ready, and the controller manager has taken its own not-ready taint off."""
    return objects.condition(node, "Ready") == "True" and not node["spec"].get("taints")


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    directory = tmp_path / "redis"
    directory.mkdir()
    server = RedisServer(directory)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The directory ``shared`` beside the checkout: captured output and scenarios not part of this repository."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip(f"{path} is not there")
    return path
