"""One look without a daemon."""

from pathlib import Path

import pytest

from agent.config import AgentConfig, Paths
from agent.scan import scan
from console.lab.host import SimHost

pytestmark = pytest.mark.slow


def config(host: SimHost, directory: Path, *, dcmi: str) -> AgentConfig:
    return AgentConfig(
        node="here",
        paths=Paths(
            dcmi=dcmi,
            npu_smi=str(host.npu_smi),
            hccn_tool=str(host.hccn_tool),
            state_dir=str(directory / "absent"),
            config_dir=str(directory / "absent"),
            kubelet_dir=str(directory / "absent"),
            sysfs=str(host.sysfs),
            kmsg=str(directory / "absent"),
        ),
    )


async def test_chips_faults_and_links_of_this_host(host: SimHost, library: Path, tmp_path: Path) -> None:
    host.occur(3, "80E01801")
    host.link(5, up=False)
    report = await scan(config(host, tmp_path, dcmi=str(library)))
    assert (report.node, len(report.chips)) == ("here", 8)
    assert {fault.id for fault in report.faults} == {"80E01801@3", "81078603@5"}
    assert {probe.name for probe in report.probes} == set()
    assert not (tmp_path / "absent").exists(), "nothing is saved"


async def test_by_the_tools_alone_it_sees_the_same(host: SimHost, tmp_path: Path) -> None:
    host.occur(3, "80E01801")
    report = await scan(config(host, tmp_path, dcmi=str(tmp_path / "absent.so")))
    assert {fault.id for fault in report.faults} == {"80E01801@3"}
    assert len(report.chips) == 8


async def test_a_host_that_cannot_be_seen_is_blind_and_not_well(host: SimHost, tmp_path: Path) -> None:
    host.npu_smi.unlink()
    report = await scan(config(host, tmp_path, dcmi=str(tmp_path / "absent.so")))
    assert {fault.id for fault in report.faults} == {"NW-MONITOR-BLIND@node"}
    assert report.chips == ()
