"""What the integration tests share: definitions, rights and controllers once, a rig for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.names import NAMESPACE
from tests.cluster.plane import ControlPlane
from tests.integration.daemons import Reconciler
from tests.integration.installation import controllers_of, forget_lists, install
from tests.integration.rig import POLICY, Rig, forget_leader
from tests.process import Process
from tests.redis_server import RedisServer

HERE = Path(__file__).parent
LEFT_OUT = pytest.StashKey[bool]()
"""Not all tests of this directory that have a control plane were chosen: by a marker, a keyword or what failed last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests under the leader that is kept come first: it starts once, and is over its first minute when silence is
    waited for. What looks back at all tests of this directory comes last."""
    places = [n for n, item in enumerate(items) if item.path.parent == HERE and item.get_closest_marker("cluster")]
    for place, item in zip(places, sorted((items[n] for n in places), key=_turn), strict=True):
        items[place] = item


def _turn(item: pytest.Item) -> int:
    if item.path.name == "test_rights_used.py":
        return 2
    return 0 if "led" in getattr(item, "fixturenames", ()) else 1


def pytest_deselected(items: list[pytest.Item]) -> None:
    """What looks back at all tests of this directory has to know when some of them do not run."""
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("cluster"):
            item.config.stash[LEFT_OUT] = True


@pytest.fixture(scope="package")
def reconciler_kubeconfig(control_plane: ControlPlane) -> Path:
    """With a token of the service account of deploy/rbac.yaml: its rights and no others.

    Reconcilers of tests that ran before, under other accounts, have left nothing that is made only once.
    """
    install(control_plane.api)
    forget_lists(control_plane.api)
    return control_plane.kubeconfig_of(NAMESPACE, "npuwarden-reconciler")


@pytest.fixture(scope="package")
def controllers(control_plane: ControlPlane, reconciler_kubeconfig: Path) -> Iterator[Process]:
    """The stand-in operators and the device plugin, for all tests of this directory and no others."""
    process = controllers_of(control_plane)
    yield process
    assert process.running, process.tail()
    process.kill()


class Leader:
    """A Redis and a reconciler that leads, kept from test to test for as long as no test wants to lead by itself."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, directory: Path) -> None:
        self._plane, self._kubeconfig, self._directory = plane, kubeconfig, directory
        self._running: tuple[RedisServer, Reconciler] | None = None

    def lead(self) -> tuple[RedisServer, Reconciler]:
        if self._running is None:
            redis_server = RedisServer(self._directory)
            redis_server.start()
            forget_leader(self._plane.api)
            reconciler = Reconciler(self._directory, self._kubeconfig, redis_server.url, POLICY)
            self._running = redis_server, reconciler
            reconciler.start()
        if not self._running[1].led_since:  # else a test that ran out of time here would take the next ones with it
            self._running[1].leads()
        return self._running

    def rest(self) -> None:
        if self._running is not None:
            redis_server, reconciler = self._running
            self._running = None
            died = not reconciler.running
            reconciler.kill()
            redis_server.stop()
            assert not died, reconciler.tail()


@pytest.fixture(scope="package")
def leader(
    control_plane: ControlPlane, reconciler_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Leader]:
    leader = Leader(control_plane, reconciler_kubeconfig, tmp_path_factory.mktemp("leader"))
    yield leader
    leader.rest()


@pytest.fixture
def rig(
    control_plane: ControlPlane,
    reconciler_kubeconfig: Path,
    controllers: Process,
    leader: Leader,
    redis_server: RedisServer,
    tmp_path: Path,
) -> Iterator[Rig]:
    """Without a reconciler: the test starts its own, on a Redis of its own."""
    leader.rest()
    forget_leader(control_plane.api)
    rig = Rig(control_plane, reconciler_kubeconfig, redis_server, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def led(
    control_plane: ControlPlane, reconciler_kubeconfig: Path, controllers: Process, leader: Leader, tmp_path: Path
) -> Iterator[Rig]:
    """A rig under a reconciler that outlives the test."""
    redis_server, reconciler = leader.lead()
    rig = Rig(control_plane, reconciler_kubeconfig, redis_server, tmp_path, reconciler)
    yield rig
    rig.close()
