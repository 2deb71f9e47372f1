"""Latched flags of optical modules are cleared by reading: of two that would read, one does."""

import multiprocessing
from pathlib import Path

import pytest

from agent.config import AgentConfig, Paths
from agent.probe import CannotLook
from agent.probes import optical
from agent.sensors.sole_reader import SoleReader
from console.lab.host import SimHost
from tests.agent.test_chip_probes import alter, made, module, ports_of

pytestmark = pytest.mark.slow


def claim_and_end(path: Path, claimed: "multiprocessing.Queue[bool]") -> None:
    claimed.put(SoleReader(path).claims())


def test_the_claim_ends_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    context = multiprocessing.get_context("spawn")
    claimed: multiprocessing.Queue[bool] = context.Queue()
    other = context.Process(target=claim_and_end, args=(path, claimed))
    other.start()
    other.join(30)
    mine, second = SoleReader(path), SoleReader(path)
    assert (claimed.get(timeout=10), mine.claims(), mine.claims(), second.claims()) == (True, True, True, False)
    mine.release()
    assert second.claims()
    second.release()
    assert SoleReader(None).claims(), "nowhere to tell others: nobody is known of"


async def test_a_scan_beside_the_agent_takes_no_flag_from_it(host: SimHost, tmp_path: Path) -> None:
    config = AgentConfig(paths=Paths(state_dir=str(tmp_path)))
    async with ports_of(host) as sensors:
        agents = made(optical, sensors, config)
        await agents.look()
        alter(host, 3, module(los=(0, 1)))
        scans = made(optical, sensors, config)
        with pytest.raises(CannotLook, match="one reader alone"):
            await scans.look()
        assert host.state().device(3).net.optical.los == (0, 1)
        await agents.look()
        assert host.state().device(3).net.optical.los == (0, 0)


async def test_a_lock_that_cannot_be_had_is_no_licence_to_read(host: SimHost, tmp_path: Path) -> None:
    (tmp_path / "optical.lock").mkdir()
    async with ports_of(host) as sensors:
        with pytest.raises(CannotLook, match=r"optical\.lock"):
            await made(optical, sensors, AgentConfig(paths=Paths(state_dir=str(tmp_path)))).look()
