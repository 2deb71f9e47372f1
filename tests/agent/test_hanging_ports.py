"""Chips that are not ready: hccn_tool waits for them, and the ports of all chips share its one queue."""

import asyncio
import time
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.detect.readings import ChipIdentity
from agent.ports import MAX_CHIPS
from agent.probe import NoDriver, Observation, Probe, Sensors
from agent.probes import link_flap, link_state, net_health, port_errors
from agent.probes.link_state import LinkState
from agent.sensors.hccn import TIMEOUT_S, Hccn
from agent.sensors.pci import PciBus
from agent.sensors.process import ToolError
from agent.sensors.worker import ChipFacts, Enumeration
from tests.waiting import eventually

HANGING = 4
LEFT_ALONE_S = 2.0
CALL_S = 0.3
"""What a healthy call takes at worst."""


def sensors_of(directory: Path, tool: str, *, timeout_s: float) -> Sensors:
    path = directory / "hccn_tool"
    path.write_text(f"#!/bin/sh\n{tool}")
    path.chmod(0o755)
    chips = NoDriver("")
    chips.enumeration = Enumeration({phy: ChipFacts((phy, 0), ChipIdentity(phy)) for phy in range(MAX_CHIPS)})
    return Sensors(chips, PciBus(directory), Hccn(path, lock=None, timeout_s=timeout_s))


async def test_four_hanging_chips_do_not_keep_the_other_ports_waiting(tmp_path: Path) -> None:
    """The time is counted: a call of a hanging chip takes the whole time-out, each other one CALL_S."""
    calls = tmp_path / "calls"
    tool = f"echo $2 >> {calls}\n[ $2 -lt {HANGING} ] && sleep 100\necho link status: UP\n"
    sensors, config = sensors_of(tmp_path, tool, timeout_s=1.0), AgentConfig()
    modules = (link_flap, net_health, port_errors, link_state)
    probes: list[Probe] = [probe for module in modules if (probe := module.make(config, sensors)) is not None]
    assert len(probes) == len(modules)
    *_, seen = await asyncio.gather(*(probe.look() for probe in probes))
    assert {link.phy for link in seen.links or () if link.up} == set(range(HANGING, MAX_CHIPS))
    asked = [int(line) for line in calls.read_text().split()]
    hung = [phy for phy in asked if phy < HANGING]
    assert len(hung) == HANGING, "each of them once, not once for each command"
    assert len(hung) * TIMEOUT_S + (len(asked) - len(hung)) * CALL_S <= 60
    assert isinstance(seen, Observation)


async def test_a_chip_that_let_the_time_pass_is_left_alone_and_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hccn = sensors_of(tmp_path, f"[ -e {tmp_path}/ready ] || sleep 100\necho link status: UP\n", timeout_s=0.5).hccn
    assert hccn is not None
    monkeypatch.setattr("agent.sensors.hccn.LEFT_ALONE_S", LEFT_ALONE_S)
    assert "no answer within" in (await hccn.link(3)).why
    (tmp_path / "ready").touch()
    assert "left alone for" in (await hccn.link(3)).why
    with pytest.raises(ToolError, match="left alone for"):
        await hccn.stat(3)
    assert (await hccn.link(4)).up, "the others are asked"
    again = time.monotonic() + LEFT_ALONE_S
    await eventually("its time is over", lambda: time.monotonic() > again)
    assert (await hccn.link(3)).up


async def test_a_ping_that_takes_too_long_says_nothing_of_the_chip(tmp_path: Path) -> None:
    hccn = sensors_of(tmp_path, "[ $3 = -ping ] && sleep 100\necho link status: UP\n", timeout_s=0.5).hccn
    assert hccn is not None
    with pytest.raises(ToolError, match="no answer within"):
        await hccn.reaches(3, "10.0.0.1")
    assert (await hccn.link(3)).up


async def test_a_round_that_runs_out_of_time_tells_what_it_knows_and_begins_with_the_rest(tmp_path: Path) -> None:
    """One port takes longer than a round."""
    tool = f"[ $2 = 5 ] && [ ! -e {tmp_path}/ready ] && sleep 2\necho link status: UP\n"
    sensors = sensors_of(tmp_path, tool, timeout_s=20.0)
    assert sensors.hccn is not None
    probe = LinkState(30, sensors, sensors.hccn)
    probe.rounds.round_s = 1.0
    links = (await probe.look()).links or ()
    told = [link.phy for link in links if link.up]
    rest = [link.phy for link in links if "were over" in link.why]
    assert rest
    assert told == [phy for phy in range(MAX_CHIPS) if phy not in rest]
    (tmp_path / "ready").touch()
    probe.rounds.round_s = 20.0
    calls = tmp_path / "calls"
    sensors.hccn._places[0].path.write_text(f"#!/bin/sh\necho $2 >> {calls}\necho link status: UP\n")
    again = (await probe.look()).links or ()
    assert {link.phy for link in again if link.up} == set(range(MAX_CHIPS))
    assert {int(phy) for phy in calls.read_text().split()[: len(rest)]} == set(rest)
