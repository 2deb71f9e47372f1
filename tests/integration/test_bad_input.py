"""Whoever starts a daemon with something missing or wrong gets one line that names it."""

from pathlib import Path

import pytest

from shared.names import CODE_MONITOR_BLIND
from tests.integration.daemons import Agent, Daemon
from tests.integration.installation import install
from tests.integration.rig import Rig
from tests.process import free_ports
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/recoveries.npuwarden.io"
UNUSABLE = 2


def the_line(daemon: Daemon, *words: str, timeout_s: float = 30) -> str:
    """The first line of its log that has all the words; no traceback stands in it."""

    found: list[str] = []

    def look() -> bool:
        found[:] = [line for line in daemon.said.splitlines() if all(word in line for word in words)]
        return bool(found)

    daemon.wait_ready(look, timeout_s)
    assert "Traceback" not in daemon.said
    return found[0]


def only_line(daemon: Daemon, *words: str) -> None:
    """It ends by itself as unusable, and this one line is all it says."""
    assert daemon.exit_code() == UNUSABLE
    lines = daemon.said.splitlines()
    assert len(lines) == 1, daemon.said
    assert all(word in lines[0] for word in words), lines[0]


class TestAgent:
    def test_neither_library_nor_tool_is_monitor_blind(self, rig: Rig) -> None:
        rig.add_nodes(1)
        (node,) = rig.nodes
        agent = rig.agent(node, library=False, tools=False)
        wait_until("it says so", lambda: CODE_MONITOR_BLIND in {fault.code for fault in rig.reported(node).faults})
        the_line(agent, "npu-smi", "libdcmi")
        assert agent.running

    def test_a_state_directory_that_is_none(self, rig: Rig) -> None:
        rig.add_nodes(1)
        (node,) = rig.nodes
        state = rig.directory / "a-file"
        state.write_text("no directory")
        agent = rig.agent(node, settings={"paths": {"state_dir": str(state)}})
        the_line(agent, str(state))
        assert len(rig.reported(node).chips) == 8, "it watches all the same"

    def test_an_unusable_redis_url(self, rig: Rig) -> None:
        agent = Agent("n", rig.host("n"), "http://redis:6379")
        agent.start()
        only_line(agent, "redis", "http://redis:6379")

    def test_redis_away(self, rig: Rig) -> None:
        (port,) = free_ports(1)
        agent = Agent("n", rig.host("n"), f"redis://127.0.0.1:{port}/0")
        agent.start()
        try:
            the_line(agent, "Redis", str(port))
            assert agent.running
        finally:
            agent.kill()


class TestReconciler:
    def test_an_unusable_redis_url(self, rig: Rig) -> None:
        only_line(rig.reconciler(redis_url="redis//nowhere"), "redis//nowhere", "url")

    def test_no_kubeconfig(self, rig: Rig) -> None:
        missing = rig.directory / "missing.kubeconfig"
        only_line(rig.reconciler(kubeconfig=missing), str(missing))

    def test_no_rights(self, rig: Rig) -> None:
        reconciler = rig.reconciler(kubeconfig=rig.plane.kubeconfig_for("stranger"))
        for plural in ("nodes", "pods", "recoveries"):
            the_line(reconciler, "stranger", "cannot list", plural)
        assert reconciler.running

    def test_redis_away(self, rig: Rig) -> None:
        (port,) = free_ports(1)
        reconciler = rig.reconciler(redis_url=f"redis://127.0.0.1:{port}/0")
        the_line(reconciler, "Redis", str(port))
        assert reconciler.running

    def test_the_definition_is_not_installed(self, rig: Rig) -> None:
        rig.api.delete(CRD)
        wait_until("it is gone", lambda: rig.api.find(CRD) is None)
        try:
            reconciler = rig.reconciler()
            the_line(reconciler, "recoveries", "kubectl apply", "crd.yaml")
            assert reconciler.running
        finally:
            install(rig.api)


@pytest.mark.parametrize("command", ["agent", "reconciler"])
def test_a_configuration_file_that_is_missing(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    daemon = Daemon(command, command, missing, 0, {})
    daemon.start()
    only_line(daemon, str(missing))
