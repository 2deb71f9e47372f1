"""status, nodes, faults, recoveries, why: asked of a real API, by exit code, text and JSON."""

import json
from typing import Any

import pytest

from shared.model import FaultLevel
from tests.console.conftest import Replica, Run, add, broken
from tests.process import free_ports

LISTS = ["nodes", "faults", "recoveries"]
WIDTH = 80


def recovery(phase: str, **status: Any) -> dict[str, Any]:
    workload = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "llm-prefill", "uid": "job-1"}
    cause = {"kind": "Hardware", "faults": ["80E18402@0 on alpha"], "nodes": ["alpha"]}
    times = {"detected": "2026-01-01T01:00:00.000Z", "finished": "2026-01-01T01:00:12.500Z"}
    return {
        "apiVersion": "npuwarden.io/v1alpha1",
        "kind": "Recovery",
        "metadata": {"name": f"llm-{phase.lower()}", "namespace": "serve"},
        "spec": {"workload": workload, "unit": "serve/llm-prefill", "level": "Job", "method": "force", "cause": cause},
        "status": {"phase": phase, "times": times, **status},
    }


@pytest.mark.parametrize("command", ["status", *LISTS])
def test_a_cluster_that_is_well_ends_with_0(command: str, run: Run, url: str) -> None:
    result = run(command, "--url", url)
    assert result.exit_code == 0, result.output
    assert result.output


def test_status_says_that_all_is_well(run: Run, url: str) -> None:
    output = run("status", "--url", url).output
    assert "6: 6 ok" in output
    assert "all is well" in output


@pytest.mark.parametrize("command", ["status", "nodes", "faults"])
def test_a_fault_is_a_finding(command: str, run: Run, url: str, replica: Replica) -> None:
    replica.say("spare-1", broken(3))
    result = run(command, "--url", url)
    assert result.exit_code == 1, result.output
    assert "spare-1" in result.output


def test_faults_show_what_is_known_of_them(run: Run, url: str, replica: Replica) -> None:
    replica.say("alpha", broken(3, FaultLevel.PRE_SEPARATE_NPU, confirmed=False))
    output = run("faults", "--url", url).output
    assert all(word in output for word in ("alpha", "3", "80E18402", "PreSeparateNPU", "5m", "unconfirmed")), output


@pytest.mark.parametrize(("phase", "code"), [("Deleting", 1), ("WaitingForCapacity", 1), ("Recovered", 0)])
def test_an_open_recovery_is_a_finding(phase: str, code: int, run: Run, url: str, replica: Replica) -> None:
    add(replica.world, recovery(phase))
    result = run("recoveries", "--url", url)
    assert result.exit_code == code
    assert all(word in result.output for word in ("serve/llm-prefill", "Job", phase, "12.5s"))


@pytest.mark.parametrize("command", LISTS)
def test_lists_as_json_are_what_the_api_says(command: str, run: Run, url: str, replica: Replica) -> None:
    add(replica.world, recovery("Recovered"))
    replica.say("spare-1", broken(3))
    found = json.loads(run(command, "--url", url, "--json").output)
    assert set(found) == {"items", "next"}
    assert found["items"]


def test_status_as_json(run: Run, url: str, replica: Replica) -> None:
    replica.say("spare-1", broken(3))
    found = json.loads(run("status", "--url", url, "--json").output)
    assert found["fine"] is False
    assert found["nodes"] == {"fault": 1, "ok": 5}
    assert found["faults"] == 1


@pytest.mark.parametrize("command", [["status"], ["nodes"], ["faults"], ["recoveries"], ["why", "alpha"]])
def test_text_fits_80_columns_and_has_no_colour_on_a_pipe(
    command: list[str], run: Run, url: str, replica: Replica
) -> None:
    replica.say("alpha", broken(0), broken(1), broken(2))
    long = "the fault went away before anything was deleted, so nothing had to be deleted at all, which is fine"
    add(replica.world, recovery("Deleting", reason="capacity", message=long))
    output = run(*command, "--url", url).output
    assert max(map(len, output.splitlines())) <= WIDTH, output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("alpha", ["alpha", "80E18402@3"]),
        ("serve/llm-prefill-master-0", ["restarts as serve/llm-prefill", "chip-not-used"]),
        ("serve/llm-prefill", ["units: serve/llm-prefill", "chip-not-used"]),
    ],
)
def test_why_tells_of_nodes_pods_and_workloads(
    subject: str, words: list[str], run: Run, url: str, replica: Replica
) -> None:
    replica.say("alpha", broken(3))
    result = run("why", subject, "--url", url)
    assert result.exit_code == 1
    assert all(word in result.output for word in words), result.output


def test_why_of_what_is_well(run: Run, url: str) -> None:
    result = run("why", "serve/llm-decode", "--url", url)
    assert result.exit_code == 0
    assert "nothing is wrong" in result.output


@pytest.mark.parametrize("subject", ["zulu", "serve/nobody", "serve/nobody/0"])
def test_why_of_the_unknown_is_a_usage_error_that_names_it(subject: str, run: Run, url: str) -> None:
    result = run("why", subject, "--url", url)
    assert result.exit_code == 2
    assert subject in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_url_may_come_from_the_environment(run: Run, url: str) -> None:
    assert run("nodes", env={"NPUWARDEN_URL": url}).exit_code == 0


@pytest.mark.parametrize("command", [["status"], ["nodes"], ["faults"], ["recoveries"], ["why", "alpha"]])
def test_nobody_answers(command: list[str], run: Run) -> None:
    (port,) = free_ports(1)
    result = run(*command, "--url", f"http://127.0.0.1:{port}")
    assert result.exit_code == 3
    assert f"http://127.0.0.1:{port}" in result.stderr
    assert "NPUWARDEN_URL" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_replica_that_does_not_lead_says_who_does(run: Run, url: str, replica: Replica) -> None:
    replica.leads = False
    result = run("nodes", "--url", url)
    assert result.exit_code == 3
    assert "reconciler-7 leads" in result.stderr
    assert url in result.stderr


def test_an_url_that_is_none(run: Run) -> None:
    result = run("nodes", "--url", "127.0.0.1:9466")
    assert result.exit_code == 2
    assert "http://HOST:PORT" in result.stderr


def test_something_else_answers(run: Run, url: str) -> None:
    result = run("nodes", "--url", f"{url}/metrics?")
    assert result.exit_code == 3
    assert "is that a reconciler?" in result.stderr
