"""status, nodes, faults, recoveries, why: asked of a real API, by exit code, text and JSON."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reconciler.core.policy import Policy
from shared import catalog
from shared.aio import now
from shared.model import FaultLevel
from shared.names import ISOLATION_ANNOTATION, OFFERED_ANNOTATION
from tests.console.conftest import Replica, Run, add, broken
from tests.process import free_ports

LISTS = ["nodes", "faults", "recoveries"]


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


@pytest.mark.parametrize("command", [["faults"], ["nodes"], ["why", "spare-1"]])
def test_what_a_node_says_does_not_steer_the_terminal(command: list[str], run: Run, url: str, replica: Replica) -> None:
    title = "\x1b]0;all is well\x07"
    evidence = {"name": f"broken{title}"}
    bad = msgspec.structs.replace(broken(3), id=f"X{title}@3", code=f"X{title}", evidence=evidence)
    replica.say("spare-1", bad)
    output = run(*command, "--url", url).output
    assert "\x1b" not in output
    assert "\\x1b]0;all is well" in output


def test_the_fault_of_a_drill_is_not_counted_as_something_broken(run: Run, url: str, replica: Replica) -> None:
    evidence = {"effect": "shadow", "until": now().wall + 300, "drill": "d-1"}
    replica.say("spare-1", msgspec.structs.replace(broken(3), origin="drill", evidence=evidence))
    output = run("status", "--url", url).output
    assert "faults      1 open, 1 of them of a drill (`npu-warden drill list`)" in output
    assert "of levels that keep no work away" not in output


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


def test_what_many_nodes_have_in_common_is_one_incident(run: Run, url: str, replica: Replica) -> None:
    assert run("incidents", "--url", url).output == "no incidents\n"
    replica.say("alpha", broken(3))
    replica.say("bravo", broken(3))
    shown = run("incidents", "--url", url)
    assert shown.exit_code == 1
    assert all(word in shown.output for word in ("domain-", "alpha, bravo", "rack-1 broke together")), shown.output
    (one,) = json.loads(run("incidents", "--url", url, "--json").output)["items"]
    assert (one["kind"], one["members"], one["held"]) == ("domain", ["alpha", "bravo"], [])
    status = run("status", "--url", url)
    assert status.exit_code == 1
    assert one["id"] in status.output


def test_status_names_a_node_that_offers_fewer_npus_than_before(run: Run, url: str, replica: Replica) -> None:
    seen = msgspec.structs.replace
    node = replica.world.nodes["spare-1"]
    fewer = seen(node.status, allocatable=dict.fromkeys(node.status.allocatable, "7"))
    notes = {OFFERED_ANNOTATION: '{"huawei.com/Ascend910":8}'}
    replica.world.nodes["spare-1"] = seen(node, status=fewer, metadata=seen(node.metadata, annotations=notes))
    result = run("status", "--url", url)
    assert result.exit_code == 0, "nothing is known to be broken"
    assert "withdrawn   spare-1: its device plugin offers 7 of 8 NPUs" in result.output


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
def test_on_a_pipe_a_row_is_a_line_without_padding_or_colour(
    command: list[str], run: Run, url: str, replica: Replica
) -> None:
    replica.say("alpha", broken(0), broken(1), broken(2))
    long = "the fault went away before anything was deleted, so nothing had to be deleted at all, which is fine"
    add(replica.world, recovery("Deleting", reason="capacity", message=long))
    output = run(*command, "--url", url).output
    assert not [line for line in output.splitlines() if line != line.rstrip()]
    assert "\x1b" not in output
    if "why" in command or "status" in command:
        assert "80E18402@0; SeparateNPU 80E18402@1; SeparateNPU 80E18402@2" in output


@pytest.mark.parametrize(
    ("subject", "code", "words"),
    [
        ("alpha", 1, ["alpha", "80E18402@3"]),
        ("serve/llm-prefill-master-0", 1, ["restarts as serve/llm-prefill", "left alone", "chip-not-used"]),
        ("serve/llm-prefill", 0, ["units: serve/llm-prefill", "left alone", "chip-not-used", "nothing is wrong"]),
    ],
)
def test_why_tells_of_nodes_pods_and_workloads(
    subject: str, code: int, words: list[str], run: Run, url: str, replica: Replica
) -> None:
    replica.say("alpha", broken(3))
    result = run("why", subject, "--url", url)
    assert result.exit_code == code
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


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://", "http://HOST:PORT"),
        ("http://127.0.0.1:99999", "Port out of range"),
        ("http://127.0.0.1:x", "Port could not be cast"),
        ("http://[::1", "Invalid IPv6 URL"),
    ],
)
def test_an_url_that_leads_nowhere(url: str, why: str, run: Run) -> None:
    result = run("nodes", "--url", url)
    assert result.exit_code == 2
    assert why in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_something_else_answers(run: Run, url: str) -> None:
    result = run("nodes", "--url", f"{url}/metrics?")
    assert result.exit_code == 3
    assert "this is not a reconciler" in result.stderr


def test_a_path_is_no_reconciler(run: Run, url: str) -> None:
    result = run("why", "alpha", "--url", f"{url}/v1")
    assert result.exit_code == 3
    assert f"this is not a reconciler: {url}/v1/v1/why?node=alpha answers 404" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_a_person_has_released_is_not_well(run: Run, url: str, replica: Replica) -> None:
    replica.say("spare-1", broken(3))
    record = {"session": "s", "since": "2026-01-01T00:00:00Z", "by": "operator", "released": ["80E18402@3"]}
    annotate(replica, "spare-1", {ISOLATION_ANNOTATION: json.dumps(record)})
    status, nodes, why = (run(*what, "--url", url) for what in (["status"], ["nodes"], ["why", "spare-1"]))
    assert [result.exit_code for result in (status, nodes, why)] == [1, 1, 1]
    assert "1 released" in status.output
    assert "faults      1 open" in status.output
    for result in (status, nodes, why):
        assert "released by hand in spite of 80E18402@3" in result.output
    assert "all is well" not in status.output
    assert "nothing is wrong" not in why.output


def annotate(replica: Replica, name: str, annotations: dict[str, str]) -> None:
    node = replica.world.nodes[name]
    metadata = msgspec.structs.replace(node.metadata, annotations=annotations)
    replica.world.nodes[name] = msgspec.structs.replace(node, metadata=metadata)


def pause(replica: Replica) -> None:
    replica.world.paused = "upgrade"


def observe(replica: Replica) -> None:
    replica.world.policy = Policy(observe_only=True)


def refuse(replica: Replica) -> None:
    replica.refused = "/etc/policy.toml: [isolate]"


def without_redis(replica: Replica) -> None:
    replica.world.reports_ok = False


def without_kubernetes(replica: Replica) -> None:
    replica.world.watch_ok = False


@pytest.mark.parametrize(
    ("keep", "line", "code", "key"),
    [
        (pause, "PAUSED (upgrade): ", 0, ("paused", "upgrade")),
        (observe, "OBSERVE ONLY", 0, ("observe_only", True)),
        (
            refuse,
            "policy.toml refused: /etc/policy.toml: [isolate]",
            1,
            ("policy_error", "/etc/policy.toml: [isolate]"),
        ),
        (without_redis, "REDIS CANNOT BE READ: ", 1, ("reports_ok", False)),
        (without_kubernetes, "THE API SERVER IS NOT HEARD: ", 1, ("watch_ok", False)),
    ],
)
def test_a_warden_that_is_kept_from_acting_says_so_first(
    keep: Callable[[Replica], None],
    line: str,
    code: int,
    key: tuple[str, object],
    run: Run,
    url: str,
    replica: Replica,
) -> None:
    keep(replica)
    for command in (["status"], ["nodes"], ["why", "alpha"]):
        assert run(*command, "--url", url).output.startswith(line), command
    status = run("status", "--url", url)
    assert status.exit_code == code
    assert "all is well" not in status.output
    found = json.loads(run("status", "--url", url, "--json").output)
    assert (key[0], found[key[0]]) == key


def test_status_lists_no_pod_that_is_well(run: Run, url: str, replica: Replica) -> None:
    replica.say("alpha", broken(3))
    assert "chip-not-used" not in run("status", "--url", url).output
    found = json.loads(run("status", "--url", url, "--json").output)
    assert "chip-not-used" in {hold["reason"] for hold in found["left_alone"]}
    assert "chip-not-used" not in {hold["reason"] for hold in found["holds"]}


def test_why_tells_the_story_of_a_recovery(run: Run, url: str, replica: Replica) -> None:
    item = recovery("Deleting", reason="budget", message="60 pods a minute")
    item["spec"]["targets"] = [
        {"pod": "llm-prefill-master-0", "uid": "1", "node": "alpha"},
        {"pod": "llm-prefill-worker-0", "uid": "2", "node": "bravo"},
    ]
    item["status"]["replacements"] = [{"pod": "llm-prefill-worker-0", "uid": "3", "node": "spare-1"}]
    item["status"]["times"] = {"detected": "2026-01-01T01:00:00.000Z", "tainted": "2026-01-01T01:00:00.400Z"}
    add(replica.world, item)
    result = run("why", "serve/llm-prefill", "--url", url)
    assert result.exit_code == 1
    for text in (
        "Job recovery llm-deleting, force",
        "cause   Hardware: 80E18402@0 on alpha",
        "phase   Deleting (budget: 60 pods a minute)",
        "detected 2026-01-01T01:00:00.000Z, tainted +0.4s",
        "llm-prefill-master-0 on alpha -> none yet",
        "llm-prefill-worker-0 on bravo -> llm-prefill-worker-0 on spare-1",
    ):
        assert text in result.output, result.output
    assert "80E18402@0 on alpha" in run("recoveries", "--url", url).output


def test_faults_name_their_code(run: Run, url: str, replica: Replica) -> None:
    replica.say("alpha", broken(3))
    row = catalog.load().lookup("80E18402")
    assert row is not None
    assert row.name
    assert row.name in run("faults", "--url", url).output


@pytest.mark.parametrize(
    ("subject", "known"),
    [
        ("llm-prefill-master-0", "serve/llm-prefill-master-0"),
        ("serve/prefill", "serve/llm-prefill"),
        ("elsewhere/llm-decode", "serve/llm-decode"),
        ("alhpa", "alpha"),
    ],
)
def test_why_of_the_unknown_says_what_is_known(subject: str, known: str, run: Run, url: str) -> None:
    result = run("why", subject, "--url", url)
    assert result.exit_code == 2
    assert known in result.stderr
    assert ("NAMESPACE/NAME" in result.stderr) == ("/" not in subject)


@pytest.mark.parametrize(
    ("subject", "lists"),
    [("nosuch", "`npu-warden nodes`"), ("no/such", "`npu-warden coverage`"), ("no/such/0", "`npu-warden coverage`")],
)
def test_why_of_the_unknown_names_the_command_that_lists_them(subject: str, lists: str, run: Run, url: str) -> None:
    assert lists in run("why", subject, "--url", url).stderr
