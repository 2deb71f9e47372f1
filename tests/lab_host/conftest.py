"""Simulated hosts and processes that use them; both are gone after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.lab.host import SimHost, build
from console.lab.host.state import Generation
from tests.lab_host.child import Child

MakeHost = Callable[..., SimHost]
MakeChild = Callable[..., Child]


@pytest.fixture
def make_host(tmp_path: Path) -> MakeHost:
    """``make_host("A3", chips=4)``: a host in the test's own directory."""

    def make(generation: Generation = "910B", chips: int = 8) -> SimHost:
        return SimHost.create(tmp_path / "host", generation, chips)

    return make


@pytest.fixture
def host(make_host: MakeHost) -> SimHost:
    """Eight healthy 910B."""
    return make_host()


@pytest.fixture
def start(host_library: None) -> Iterator[MakeChild]:
    """``start(host)``: a new process with the library loaded, not initialised yet."""
    children: list[Child] = []

    def make(host: SimHost, env: dict[str, str] | None = None) -> Child:
        children.append(Child(host, env))
        return children[-1]

    yield make
    for child in children:
        child.close()
        if child.process.stderr is not None:
            child.process.stderr.close()


@pytest.fixture(scope="session")
def host_library() -> None:
    """Skips the test where the library cannot be built."""
    if build.library() is None:
        pytest.skip("no C compiler")
