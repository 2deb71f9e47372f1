"""What the command refuses before it asks anybody."""

import pytest
from click.testing import CliRunner

from console.main import main


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["node-silent", "--expect", "taint=3s"], "such a drill has no such phase, but detect, reverted"),
        (["node-silent", "--pod", "ml/j-0"], "--pod: node-silent is of a node"),
        (["node-silent", "--code", "80E18402"], "--code: node-silent has none of its own"),
        (["software-fault"], "--pod NAMESPACE/NAME names the pod"),
        (["software-fault", "--pod", "j-0"], "--pod NAMESPACE/NAME names the pod"),
        (["chip-fault", "--ttl", "2h"], "'2h' is no duration between 1s and 1h such as 90s or 30m"),
        (["chip-fault", "--ttl", "2"], "'2' is no duration between 1s and 1h such as 90s or 30m"),
        (["chip-fault", "--code", "ZZZ"], "--code: 'ZZZ' is no fault code: 8 or 9 hexadecimal digits, or a name"),
        (["chip-fault", "--code", "80E1840"], "--code: '80E1840' is no fault code"),
        (["chip-fault", "--code", "nw-linkflap"], "--code: 'nw-linkflap': the warden has no fault of this name"),
        (["chip-fault", "--code", "NW-MONITOR-BLIND"], "the kind driver-hang shows it"),
        (["chip-fault", "--expect", "ready=3s"], "use --effect real"),
        (["chip-fault", "--expect", "soon"], "--expect: 'soon' is no PHASE=TIME"),
        (["meteor"], "'meteor' is not one of"),
    ],
)
def test_it_is_refused_with_the_reason(words: list[str], why: str) -> None:
    done = CliRunner().invoke(main, ["drill", "run", "--node", "n", *words])
    assert done.exit_code == 2
    assert why in done.stderr


def test_every_kind_of_a_node_needs_its_name() -> None:
    done = CliRunner().invoke(main, ["drill", "run", "card-lost"])
    assert (done.exit_code, "card-lost: --node names the node" in done.stderr) == (2, True)


def test_a_local_drill_is_refused_for_the_same_codes() -> None:
    done = CliRunner().invoke(main, ["drill", "local", "chip-fault", "--code", "ZZZ"])
    assert (done.exit_code, "--code: 'ZZZ' is no fault code" in done.stderr) == (2, True)


@pytest.mark.parametrize("code", ["81078603", "80e18402", "281078603", "NW-LINK-FLAP", "nw-hccs"])
def test_a_code_that_an_agent_can_show_is_asked_for(code: str) -> None:
    nobody = ["--url", "http://127.0.0.1:1"]
    done = CliRunner().invoke(main, ["drill", "run", "chip-fault", "--node", "n", "--code", code, *nobody])
    assert (done.exit_code, "127.0.0.1:1 does not answer" in done.stderr) == (3, True)


@pytest.mark.parametrize("kind", ["software-fault", "redis-down"])
def test_what_no_agent_does_is_no_local_drill(kind: str) -> None:
    done = CliRunner().invoke(main, ["drill", "local", kind])
    assert (done.exit_code, f"{kind}: no agent does this" in done.stderr) == (2, True)


def test_a_local_drill_without_an_agent_says_where_it_looked() -> None:
    done = CliRunner().invoke(main, ["drill", "local", "chip-fault", "--socket", "/nowhere/agent.sock"])
    assert done.exit_code == 3
    assert "/nowhere/agent.sock: No such file or directory" in done.stderr
