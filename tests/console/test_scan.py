"""scan: one look at a host without NPUs, which is no healthy host."""

import json
from pathlib import Path

import pytest

from tests.console.conftest import Run


@pytest.fixture
def bare_host(tmp_path: Path) -> str:
    """agent.toml of a host with neither driver nor tools."""
    absent = "\n".join(f'{name} = "none"' for name in ("dcmi", "npu_smi", "hccn_tool", "kmsg"))
    places = "\n".join(f'{name} = "{tmp_path}"' for name in ("state_dir", "config_dir", "kubelet_dir", "sysfs"))
    path = tmp_path / "agent.toml"
    path.write_text(f'node = "bare"\n[paths]\n{absent}\n{places}\n')
    return str(path)


def test_a_host_on_which_nothing_was_seen_is_a_finding(bare_host: str, run: Run) -> None:
    result = run("scan", "--config", bare_host, env={"NPUWARDEN_NODE": "bare"})
    assert result.exit_code == 1, result.output
    assert "bare: 0 chips" in result.output
    assert "no chip was seen" in result.stdout
    assert "neither libdcmi.so nor npu-smi was found" in result.stdout  # why it is blind


def test_scan_as_json_is_a_report(bare_host: str, run: Run) -> None:
    result = run("scan", "--config", bare_host, "--json", env={"NPUWARDEN_NODE": "bare"})
    report = json.loads(result.stdout)
    assert report["node"] == "bare"
    assert report["v"] == 1


def test_a_bad_configuration_is_named(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "agent.toml"
    path.write_text("[poll]\nchips = 5\n")
    result = run("scan", "--config", str(path))
    assert result.exit_code == 2
    assert str(path) in result.stderr
