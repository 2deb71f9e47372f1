"""Whether the container runtime serves on its socket."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.config import AgentConfig, Paths
from agent.limits import ProbeLimits
from agent.limits import Runtime as RuntimeLimits
from agent.probe import CannotLook, NoDriver, Observation, Probe, Sensors
from agent.probes import runtime
from agent.remembering import recall, remember
from agent.sensors.cri import EMPTY_SETTINGS, PREFACE
from agent.sensors.pci import PciBus
from shared.aio import now

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a gRPC server begins: its settings come when the client's preface is right."""
    if await reader.readexactly(len(PREFACE)) == PREFACE:
        writer.write(EMPTY_SETTINGS)
        await writer.drain()
    writer.close()


async def http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()
    writer.close()


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(len(PREFACE + EMPTY_SETTINGS))
    writer.close()


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one: the path of a socket has 107 bytes at most (unix(7)), and the host's own stands below it."""
    with tempfile.TemporaryDirectory(prefix="npuw-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where containerd has its socket; beside it one that a runtime of old has left behind."""
    socket = tmp_path / "1/root" / runtime.SOCKETS[0]
    socket.parent.mkdir(parents=True)
    old = tmp_path / "1/root" / runtime.SOCKETS[2]
    old.touch()
    return socket


def remove(place: Path) -> None:
    place.unlink(missing_ok=True)


@asynccontextmanager
async def serving(place: Path, serve: Serve) -> AsyncIterator[None]:
    remove(place)
    server = await asyncio.start_unix_server(serve, str(place))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


def probe_at(directory: Path, *, looks: int = 2) -> Probe:
    limits = ProbeLimits(runtime=RuntimeLimits(timeout_s=0.3, looks=looks))
    config = AgentConfig(paths=Paths(procfs=str(directory), kubelet_dir=str(directory)), probes=limits)
    made = runtime.make(config, Sensors(NoDriver(""), PciBus(directory)))
    assert made is not None
    return made


def found(seen: Observation) -> dict[str, bool]:
    return {one.code: one.active for one in seen.node or ()}


@pytest.mark.parametrize(
    ("serve", "why"),
    [
        (None, "No such file"),
        (closes, "closed without an answer"),
        (http1, "no gRPC server"),
        (hangs, "no answer within 0.3 s"),
    ],
)
async def test_a_runtime_that_served_and_no_longer_does(
    place: Path, tmp_path: Path, serve: Serve | None, why: str
) -> None:
    probe = probe_at(tmp_path)
    async with serving(place, grpc):
        assert found(await probe.look()) == {"NW-RUNTIME": False}
    remove(place)
    if serve is None:
        first, second = await probe.look(), await probe.look()
    else:
        async with serving(place, serve):
            first, second = await probe.look(), await probe.look()
    assert found(first) == {}
    assert found(second) == {"NW-RUNTIME": True}
    (finding,) = second.node or ()
    assert why in finding.evidence[f"/{runtime.SOCKETS[0]}"]
    assert len(finding.evidence) == 1, "a socket that has never answered is not missed"
    async with serving(place, grpc):
        assert found(await probe.look()) == {"NW-RUNTIME": False}


async def test_a_runtime_that_has_never_served_is_unknown(place: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotLook, match=r"/run/cri-dockerd.sock: Connection refused"):
        await probe_at(tmp_path).look()


async def test_a_restart_of_the_agent_remembers_which_one_served(place: Path, tmp_path: Path) -> None:
    before, after, rebooted = probe_at(tmp_path), probe_at(tmp_path, looks=1), probe_at(tmp_path, looks=1)
    async with serving(place, grpc):
        await before.look()
    recall([after], remember([before]), now(), same_boot=True)
    recall([rebooted], remember([before]), now(), same_boot=False)
    assert found(await after.look()) == {"NW-RUNTIME": True}
    with pytest.raises(CannotLook):
        await rebooted.look()


def test_a_host_without_a_runtime_or_a_kubelet_has_nothing_to_look_at(place: Path, tmp_path: Path) -> None:
    sensors = Sensors(NoDriver(""), PciBus(tmp_path))
    empty, nowhere = tmp_path / "empty", str(tmp_path / "nowhere")
    empty.mkdir()
    for procfs, kubelet in ((str(empty), str(tmp_path)), (str(tmp_path), nowhere)):
        assert runtime.make(AgentConfig(paths=Paths(procfs=procfs, kubelet_dir=kubelet)), sensors) is None
