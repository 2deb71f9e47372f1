"""`recoveries show` and `faults --repair`, asked of a real API: what is kept, readable, by exit code and JSON."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import Result

from console.cli.repairs import COLUMNS, repair_row
from console.cli.table import layout
from reconciler.core.kept_logs import ContainerLog, KeptLogs
from shared.model import Chip, FaultLevel
from tests.console.conftest import Replica, Run, add, broken
from tests.console.test_questions import recovery

Show = Callable[..., Result]


@pytest.fixture
def show(run: Run, url: str) -> Show:
    def ask(name: str, *args: str) -> Result:
        return run("recoveries", "show", name, "--url", url, *args)

    return ask


def complete() -> dict[str, Any]:
    made = recovery("Recovered", charged=1, holder="reconciler-7_0f0f")
    made["spec"]["history"] = {"of": "serve/llm-prefill", "recoveries": 3, "charged": 2}
    made["spec"]["targets"] = [{"pod": "llm-0", "uid": "u", "node": "alpha", "chips": [3]}]
    made["spec"]["evidence"] = [
        {
            "node": "alpha",
            "code": "80E18402",
            "level": "SeparateNPU",
            "since": "2026-01-01T00:59:58.000Z",
            "chip": 3,
            "pci": "0000:c1:00.0",
            "die": "DIE-3",
            "codes": ["80E18402", "80C98009"],
            "confirmed": False,
        }
    ]
    made["status"]["replacements"] = [{"pod": "llm-0", "uid": "v", "node": "beta"}]
    made["status"]["conditions"] = [
        {"type": "Overdue", "status": "True", "reason": "Recreating", "message": "Recreating for more than 600 s"}
    ]
    return made


@pytest.mark.parametrize("name", ["llm-recovered", "serve/llm-recovered", "serve/llm-prefill"])
def test_everything_that_is_known_of_one(name: str, show: Show, replica: Replica) -> None:
    add(replica.world, complete())
    replica.logs = KeptLogs(
        [
            ContainerLog("llm-0", "serve", "alpha", "2026 first\n2026 last words", cut=True),
            ContainerLog("llm-1", "serve", "beta", missing="node beta does not answer"),
        ],
        None,
    )
    result = show(name)
    assert result.exit_code == 0, result.output
    said = result.output
    for text in (
        *("serve/llm-prefill", "80E18402@0 on alpha", "Recovered", "llm-0 on alpha -> llm-0 on beta"),
        *("3 recoveries of the unit before", "1 retries used by it, 2 before", "reconciler-7_0f0f"),
        *("Recreating for more than 600 s", "0000:c1:00.0", "DIE-3", "also 80C98009", "unconfirmed"),
        *("log of llm-0/serve on alpha", "last words", "cut off", "node beta does not answer"),
    ):
        assert text in said, f"{text!r} is missing in\n{said}"


def test_an_open_one_is_a_finding_and_says_where_to_read_on(show: Show, replica: Replica) -> None:
    add(replica.world, recovery("Deleting"))
    result = show("llm-deleting")
    assert result.exit_code == 1
    assert "npu-warden why serve/llm-prefill" in result.output
    assert "logs: no logs are kept" in result.output


def test_a_unit_means_its_newest_recovery(show: Show, replica: Replica) -> None:
    old, new = recovery("Recovered"), recovery("Deleting")
    old["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-01-02T01:00:00Z"
    add(replica.world, new, old)
    assert "llm-deleting" in show("serve/llm-prefill").output


def test_a_log_does_not_steer_the_readers_terminal(show: Show, replica: Replica) -> None:
    add(replica.world, complete())
    replica.logs = KeptLogs([ContainerLog("p", "c", "alpha", "red \x1b[31m\x07 tab\there")], None)
    output = show("llm-recovered").output
    assert "\x1b[31m" not in output
    assert "\x07" not in output
    assert "red \\x1b[31m\\x07 tab\there" in output


def test_one_that_is_not_there(show: Show, replica: Replica) -> None:
    add(replica.world, recovery("Recovered"))
    result = show("llm-recover")
    assert result.exit_code == 2
    assert "known: serve/llm-recovered" in result.stderr
    assert "`npu-warden recoveries` lists them" in result.stderr


def test_as_json_it_is_what_the_api_says(show: Show, replica: Replica) -> None:
    add(replica.world, complete())
    replica.logs = KeptLogs([ContainerLog("llm-0", "serve", "alpha", "last words")], None)
    found = json.loads(show("llm-recovered", "--json").output)
    assert found["spec"]["evidence"][0]["die"] == "DIE-3"
    assert found["logs"] == [{"pod": "llm-0", "container": "serve", "node": "alpha", "text": "last words"}]
    assert found["logs_note"] is None


def test_options_of_the_list_are_not_dropped_in_silence(run: Run, url: str) -> None:
    result = run("recoveries", "--json", "show", "x", "--url", url)
    assert result.exit_code == 2
    assert "--json: stands behind show" in result.output


def chip(replica: Replica, node: str, *, die: str = "DIE-3") -> None:
    """The node shows its broken chip with its identity."""
    heard = replica.world.heard[node]
    chips = (Chip(3, "fault", pci="0000:c1:00.0", die=die),)
    report = msgspec.structs.replace(heard.report, chips=chips)
    replica.world.heard[node] = type(heard)(report, heard.at)


def test_the_list_for_repairs(run: Run, url: str, replica: Replica) -> None:
    replica.say("alpha", broken(3), broken(2, FaultLevel.RESTART_NPU))
    chip(replica, "alpha")
    result = run("faults", "--repair", "--url", url)
    assert result.exit_code == 1, result.output
    (_, row) = result.output.splitlines()
    assert all(word in row for word in ("alpha", "0000:c1:00.0", "DIE-3", "80E18402", "5m")), result.output
    found = json.loads(run("faults", "--repair", "--url", url, "--json").output)
    assert [(one["node"], one["chip"], one["die"]) for one in found["items"]] == [("alpha", 3, "DIE-3")]


def test_nothing_to_repair(run: Run, url: str, replica: Replica) -> None:
    replica.say("alpha", broken(2, FaultLevel.RESTART_NPU))
    result = run("faults", "--repair", "--url", url)
    assert result.exit_code == 0
    assert "no chips to repair" in result.output


def test_the_list_for_repairs_fits_80_columns() -> None:
    row = {
        "node": "npu-worker-rack12-03",
        "chip": 15,
        "pci": "0000:c1:00.0",
        "since": "2026-01-01T01:00:00Z",
        "die": "A1B2C3D4 E5F60718 293A4B5C 6D7E8F90 01234567",
        "code": "80E18402",
        "level": "ManuallySeparateNPU",
        "meaning": "HBM multi bit error that cannot be corrected",
        "isolated_s": 180_000.0,
        "marks": ["unconfirmed", "came back 2 times"],
    }
    for die in (row["die"], "A1B2C3D4-E5F60718-293A4B5C-6D7E8F90-01234567"):
        cells = ["-" if cell is None else str(cell) for cell in repair_row({**row, "die": die})]
        assert max(map(len, layout(COLUMNS, [cells], 80, lambda _, padded: padded))) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recoveries"], "drill: 80E18402@0 on alpha"),
        (["status"], "drill: 80E18402@0 on alpha"),
        (["recoveries", "show", "llm-deleting"], "drill   the fault was injected, nothing is broken"),
        (["why", "serve/llm-prefill"], "drill   the fault was injected, nothing is broken"),
    ],
    ids=" ".join,
)
def test_what_a_drill_has_caused_is_told_apart(
    words: list[str], said: str, run: Run, url: str, replica: Replica
) -> None:
    made = recovery("Deleting")
    add(replica.world, made)
    assert said not in run(*words, "--url", url).output
    made["spec"]["origin"] = "drill"
    add(replica.world, made)
    assert said in run(*words, "--url", url).output
