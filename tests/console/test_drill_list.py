"""`npu-warden drill list`: what runs, and what it would cause."""

import json

import msgspec

from shared.aio import now
from shared.model import Drill
from tests.console.conftest import Replica, Run, broken


def test_a_shadow_drill_says_what_it_would_cause(run: Run, url: str, replica: Replica) -> None:
    until = now().wall + 300
    evidence = {"effect": "shadow", "until": until, "drill": "d-1"}
    fault = msgspec.structs.replace(broken(3), origin="drill", evidence=evidence)
    replica.say("spare-1", fault)
    heard = replica.world.heard["spare-1"]
    drilled = msgspec.structs.replace(heard.report, drill=Drill("local-1", fault.id, "shadow", until))
    replica.world.heard["spare-1"] = type(heard)(drilled, heard.at)
    result = run("drill", "list", "--url", url)
    assert result.exit_code == 0, result.output
    assert "local-1 would taint spare-1 SeparateNPU:NoSchedule" in result.output.splitlines()
    listed = json.loads(run("drill", "list", "--url", url, "--json").output)
    assert [row["name"] for row in listed["items"]] == ["local-1"]
    assert listed["next"] is None
    assert "taint spare-1 SeparateNPU:NoSchedule" in listed["items"][0]["would"]
