"""One look without a daemon."""

import sys
from pathlib import Path

import pytest

from agent import probes
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


async def test_probes_that_hang_or_have_a_bug_are_told_and_the_others_look(
    host: SimHost, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = '"""{0}."""\nimport asyncio\nclass P:\n    name = "{0}"\n    period_s = timeout_s = 0.1\n'
    probe += "    async def look(self):\n        {1}\ndef make(config, sensors):\n    return P()\n"
    (tmp_path / "a_hangs.py").write_text(probe.format("a_hangs", "await asyncio.sleep(1000)"))
    (tmp_path / "a_buggy.py").write_text(probe.format("a_buggy", "raise KeyError('x')"))
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    host.link(5, up=False)
    report = await scan(config(host, tmp_path, dcmi=str(library)))
    why = {one.probe: one.why for one in report.unknown}
    assert why["a_hangs"] == "no answer within 0.1 s"
    assert why["a_buggy"] == "bug in the probe: KeyError: 'x'"
    assert {fault.id for fault in report.faults} == {"81078603@5"}
    for name in ("a_hangs", "a_buggy"):
        sys.modules.pop(f"agent.probes.{name}")


async def test_a_host_that_cannot_be_seen_is_blind_and_not_well(host: SimHost, tmp_path: Path) -> None:
    host.npu_smi.unlink()
    report = await scan(config(host, tmp_path, dcmi=str(tmp_path / "absent.so")))
    assert {fault.id for fault in report.faults} == {"NW-MONITOR-BLIND@node"}
    assert report.chips == ()
