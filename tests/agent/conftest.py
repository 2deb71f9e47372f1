"""Simulated hosts that the code under test sees, and the agent as a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.detect.readings import ChipReading, DriverReading
from agent.metrics import Metrics
from agent.store import Store
from console.lab.host import SimHost
from console.lab.host.state import Generation
from tests.agent.daemon import AgentProcess

MakeHost = Callable[..., SimHost]
MakeAgent = Callable[..., AgentProcess]


def by_phy(reading: DriverReading) -> dict[int, ChipReading]:
    """The chips of a driver that has answered."""
    assert reading.silent is None, reading.silent
    return {one.chip.phy: one for one in reading.chips}


def notes(store: Store) -> list[bytes]:
    """What waits in the outbox."""
    return [note for _, note in store.pending(1_000_000)]


@pytest.fixture
def make_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeHost:
    """``make_host("A3", chips=4)``: a host in the test's own directory; children started by the test see it."""

    def make(generation: Generation = "910B", chips: int = 8) -> SimHost:
        host = SimHost.create(tmp_path / "host", generation, chips)
        for name, value in host.env().items():
            monkeypatch.setenv(name, value)
        return host

    return make


@pytest.fixture
def host(make_host: MakeHost) -> Iterator[SimHost]:
    """Eight healthy 910B; the library must never see two threads at once."""
    host = make_host()
    yield host
    assert not host.violations.exists(), host.violations.read_text()


@pytest.fixture
def library(host: SimHost) -> Path:
    if host.library is None:
        pytest.skip("no C compiler: the stand-in libdcmi.so cannot be built")
    return host.library


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[MakeAgent]:
    """``make_agent(host, redis_url)``: an agent process on the host, killed at the end of the test."""
    made: list[AgentProcess] = []

    def make(host: SimHost, redis_url: str, **settings: Any) -> AgentProcess:
        agent = AgentProcess(host, redis_url, tmp_path, **settings)
        made.append(agent)
        agent.start()
        return agent

    yield make
    for agent in made:
        agent.kill()
