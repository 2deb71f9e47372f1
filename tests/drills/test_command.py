"""What the command refuses before it asks anybody."""

import pytest
from click.testing import CliRunner

from console.main import main


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["node-silent"], "a silent agent would hide real faults"),
        (["software-fault"], "delete or kill a pod"),
        (["redis-down"], "Redis is shared by all nodes"),
        (["chip-fault", "--ttl", "2h"], "--ttl: at most 60m"),
        (["chip-fault", "--expect", "ready=3s"], "use --effect real"),
        (["chip-fault", "--expect", "soon"], "--expect: 'soon' is no PHASE=TIME"),
        (["meteor"], "'meteor' is not one of"),
    ],
)
def test_it_is_refused_with_the_reason(words: list[str], why: str) -> None:
    done = CliRunner().invoke(main, ["drill", "run", "--node", "n", *words])
    assert done.exit_code == 2
    assert why in done.stderr


def test_a_local_drill_without_an_agent_says_where_it_looked() -> None:
    done = CliRunner().invoke(main, ["drill", "local", "chip-fault", "--socket", "/nowhere/agent.sock"])
    assert done.exit_code == 3
    assert "/nowhere/agent.sock: No such file or directory" in done.stderr
