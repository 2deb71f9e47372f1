"""What the simulated host prints is understood, and says the same as its state; for every generation it can be."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from agent.decode.tools import decode
from console.lab.host import defaults, hccn_tool, npu_smi
from console.lab.host.state import Generation, HostState, save
from tests.decode.judging import told

pytestmark = pytest.mark.slow

GENERATIONS = pytest.mark.parametrize("generation", get_args(Generation))
CHIPS = 4
NOW_S = 1_790_000_000


@pytest.fixture
def state(generation: Generation) -> HostState:
    return defaults.healthy(generation, CHIPS, NOW_S)


@pytest.fixture
def path(state: HostState, tmp_path: Path) -> Path:
    path = tmp_path / "state.json"
    save(path, state)
    return path


@GENERATIONS
def test_the_table_and_the_map_name_every_chip(state: HostState, path: Path) -> None:
    table = decode("npu-smi-info", npu_smi.run(["info"], path).text)
    ids = decode("npu-smi-m", npu_smi.run(["info", "-m"], path).text)
    assert table.error is None
    assert ids.error is None
    buses = [device.pci.address.upper() for device in state.devices]
    assert [chip["bus"] for chip in told(table)["chips"]] == buses
    assert [chip["health"] for chip in told(table)["chips"]] == ["OK"] * CHIPS
    assert len(told(ids)["chips"]) == CHIPS


@GENERATIONS
def test_what_is_asked_of_each_chip(state: HostState, path: Path) -> None:
    for device in state.devices:
        where = (
            ["-i", str(device.logic)] if state.generation == "950" else ["-i", str(device.card), "-c", str(device.chip)]
        )
        for tool in ("health", "board", "ecc", "usages", "proc-mem"):
            answer = decode(f"npu-smi-{tool}", npu_smi.run(["info", "-t", tool, *where], path).text)
            assert answer.error is None, (tool, answer.error)


@GENERATIONS
def test_every_answer_of_hccn_tool(state: HostState, path: Path) -> None:
    for command in ("link", "link_stat", "net_health", "stat", "optical", "speed", "fec", "ip", "gateway", "lldp"):
        output = hccn_tool.run(["-i", str(state.devices[0].phy), f"-{command}", "-g"], path)
        answer = decode(f"hccn-{command.replace('_', '-')}", output.stdout + output.stderr)
        assert (answer.error is None) == (output.rc == 0), (command, answer.error, output)
