"""A kubelet's directory that the agent may not look at: what needs it is unknown and says what to do."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent import probes
from agent.config import AgentConfig, Paths
from agent.limits import Kubelet as KubeletLimits
from agent.limits import ProbeLimits
from agent.pods import HeldChips
from agent.probe import NoDriver, Probe, Sensors
from agent.runner import attempt
from agent.sensors.kubelet import PodDevices
from agent.sensors.pci import PciBus
from agent.sensors.reach import may_be_directory
from tests.process import free_ports

CAPABILITY_VERSION = 0x20080522
OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: by them root may look everywhere."""


@contextmanager
def held_to_permissions() -> Iterator[None]:
    """This thread, and those that it starts, may enter only what the modes of directories let them (capset(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    kept = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    assert libc.capget(header, kept) == 0
    less = (ctypes.c_uint32 * 6)(kept[0] & ~OVERRIDES, *kept[1:])
    assert libc.capset(header, less) == 0
    try:
        yield
    finally:
        assert libc.capset(header, kept) == 0


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A kubelet's directory behind one that nobody may enter."""
    door = tmp_path / "root"
    (door / "kubelet/pods").mkdir(parents=True)
    door.chmod(0)
    yield door / "kubelet"
    door.chmod(0o755)


def loaded(kubelet_dir: Path, procfs: Path) -> dict[str, Probe]:
    (port,) = free_ports(1)
    limits = ProbeLimits(kubelet=KubeletLimits(url=f"http://127.0.0.1:{port}/healthz", timeout_s=2.0))
    config = AgentConfig(paths=Paths(kubelet_dir=str(kubelet_dir), procfs=str(procfs)), probes=limits)
    sensors = Sensors(NoDriver(""), PciBus(procfs), pods=HeldChips(PodDevices(kubelet_dir)))
    return {probe.name: probe for probe in probes.load(config, sensors)}


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    (tmp_path / "proc/2").mkdir(parents=True)
    (tmp_path / "proc/2/comm").write_text("kthreadd\n")
    return tmp_path / "proc"


@pytest.mark.parametrize("name", ["pod_devices", "stale_process", "host_disk"])
async def test_what_needs_the_directory_is_unknown_and_says_what_to_do(name: str, closed: Path, procfs: Path) -> None:
    with held_to_permissions():
        seen, why = await attempt(loaded(closed, procfs)[name])
    assert seen is None
    assert why is not None
    assert "bug" not in why
    assert str(closed) in why
    assert "Permission denied" in why
    assert "privileged" in why
    assert "[paths]" in why


async def test_the_kubelet_itself_is_asked_all_the_same(closed: Path, procfs: Path) -> None:
    with held_to_permissions():
        seen, why = await attempt(loaded(closed, procfs)["kubelet"])
    assert seen is None
    assert why is not None
    assert why.startswith("no kubelet runs here")


async def test_it_looks_again_once_it_may(closed: Path, procfs: Path) -> None:
    with held_to_permissions():
        probe = loaded(closed, procfs)["stale_process"]
        assert (await attempt(probe))[1] is not None
        closed.parent.chmod(0o755)
        seen, why = await attempt(probe)
    assert (seen is not None, why) == (True, None)


def test_absent_is_not_out_of_reach(closed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with held_to_permissions():
        assert may_be_directory(closed)
        assert not may_be_directory(tmp_path / "none")
        assert not may_be_directory(tmp_path / "file")
        assert not may_be_directory(tmp_path / "file/below")
        assert may_be_directory(Path("/"))
