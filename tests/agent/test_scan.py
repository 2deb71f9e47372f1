"""One look without a daemon."""

import sys
from pathlib import Path

import pytest

from agent import probes
from agent.config import AgentConfig, Paths
from agent.scan import scan
from console.lab.host import SimHost
from tests.agent.conftest import MakeHost

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


def library_of(host: SimHost) -> str:
    if host.library is None:
        pytest.skip("no C compiler: the stand-in libdcmi.so cannot be built")
    return str(host.library)


async def test_chips_faults_and_links_of_this_host(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(chips=4)
    host.occur(3, "80E01801")
    host.link(1, up=False)
    report = await scan(config(host, tmp_path, dcmi=library_of(host)))
    assert (report.node, len(report.chips)) == ("here", 4)
    assert {fault.id for fault in report.faults} == {"80E01801@3", "81078603@1"}
    assert {probe.name for probe in report.probes} == set()
    assert not (tmp_path / "absent").exists(), "nothing is saved"


async def test_by_the_tools_alone_it_sees_the_same(make_host: MakeHost, tmp_path: Path) -> None:
    host = make_host(chips=4)
    host.occur(3, "80E01801")
    report = await scan(config(host, tmp_path, dcmi=str(tmp_path / "absent.so")))
    assert {fault.id for fault in report.faults} == {"80E01801@3"}
    assert (len(report.chips), report.machine.firmware) == (4, "7.7.0.3.231")


async def test_probes_that_hang_or_have_a_bug_are_told_and_the_others_look(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = '"""{0}."""\nimport asyncio\nclass P:\n    name = "{0}"\n    period_s = timeout_s = 0.1\n'
    probe += "    async def look(self):\n        {1}\ndef make(config, sensors):\n    return P()\n"
    (tmp_path / "a_hangs.py").write_text(probe.format("a_hangs", "await asyncio.sleep(1000)"))
    (tmp_path / "a_buggy.py").write_text(probe.format("a_buggy", "raise KeyError('x')"))
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    host = make_host(chips=2)
    host.link(1, up=False)
    report = await scan(config(host, tmp_path, dcmi=library_of(host)))
    why = {one.probe: one.why for one in report.unknown}
    assert why["a_hangs"] == "no answer within 0.1 s"
    assert why["a_buggy"] == "bug in the probe: KeyError: 'x'"
    assert {fault.id for fault in report.faults} == {"81078603@1"}
    for name in ("a_hangs", "a_buggy"):
        sys.modules.pop(f"agent.probes.{name}")


async def test_a_host_that_cannot_be_seen_is_blind_and_not_well(host: SimHost, tmp_path: Path) -> None:
    host.npu_smi.unlink()
    report = await scan(config(host, tmp_path, dcmi=str(tmp_path / "absent.so")))
    assert {fault.id for fault in report.faults} == {"NW-MONITOR-BLIND@node"}
    assert report.chips == ()
