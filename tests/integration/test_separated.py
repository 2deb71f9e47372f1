"""A chip separated for good is so in the cluster: whatever its agent forgets, and until a person says otherwise."""

import json
import time
import uuid
from typing import Any

import redis

from console.access import release
from shared.commands import COMMAND_FIELD, ReleaseSeparation, decode_command
from shared.model import AgentInfo, Chip, Fault, FaultLevel, NodeReport
from shared.names import CONDITION, ISOLATION_ANNOTATION, NAMESPACE, SEPARATED_CONFIGMAP, commands_stream, report_key
from shared.wire import encode
from tests.cluster import objects
from tests.integration.rig import Rig
from tests.waiting import wait_until

LIST = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{SEPARATED_CONFIGMAP}"
CODE = "80E18008"
MANUAL = Fault(f"{CODE}@3", CODE, 3, FaultLevel.MANUALLY_SEPARATE_NPU, since=0.0, confirmed=True)


class Agents:
    """Reports in the name of agents, each of a session of its own."""

    def __init__(self, rig: Rig) -> None:
        self._redis = rig.redis

    def say(self, node: str, *faults: Fault, die: str | None) -> None:
        chips = (Chip(3, "fault" if faults else "ok", die=die),) if die else ()
        agent = AgentInfo("test")
        report = NodeReport(1, node, str(uuid.uuid4()), 1, "b", time.time(), agent, chips=chips, faults=faults)
        self._redis.set(report_key(node), encode(report), ex=3600)
        note = {"v": 1, "node": node, "session": report.session, "seq": 1}
        self._redis.xadd("npuwarden:events", {"note": json.dumps(note)})


def test_a_separated_die_outlives_its_agents_memory_and_its_nodes_name(led: Rig) -> None:
    led.add_nodes(2)
    first, second = led.nodes
    agents, die = Agents(led), f"{uuid.uuid4().hex[:8].upper()}-00000001"

    def entry() -> Any:
        found = led.api.find(LIST)
        return (found or {}).get("data", {}).get(die)

    def tainted(node: str) -> str | None:
        taint = led.taint(node)
        return taint["value"] if taint else None

    def says(node: str) -> str:
        found = next(c for c in led.node(node)["status"]["conditions"] if c["type"] == CONDITION)
        return f"{found['status']} {found['message']}"

    agents.say(first, MANUAL, die=die)
    wait_until("it is listed", entry)
    assert json.loads(entry()) == json.loads(entry()) | {"node": first, "chip": 3, "codes": [CODE]}
    wait_until("its node is isolated", lambda: tainted(first) == "ManuallySeparateNPU")

    agents.say(first, die=die)
    wait_until("the list speaks for the node", lambda: "is listed as separated" in says(first))
    assert says(first).startswith("False")
    assert tainted(first) == "ManuallySeparateNPU"

    agents.say(first, die=None)
    agents.say(second, die=die)
    wait_until("the die is known in its new place", lambda: tainted(second) == "ManuallySeparateNPU")
    wait_until("the old place is given back", lambda: tainted(first) is None)

    agents.say(second, MANUAL, die=die)
    wait_until("its agent has found it again", lambda: json.loads(entry())["node"] == second)
    led.api.merge_patch(f"/api/v1/nodes/{second}", release("the card was exchanged"))
    wait_until("it is off the list", lambda: entry() is None)
    wait_until("the node is given back", lambda: tainted(second) is None)
    asked = wait_until("its agent is asked to forget it", lambda: commands(led.redis, second))
    assert asked[-1] == ReleaseSeparation(3, CODE, f"node {second} was released by a person")

    agents.say(second, die=die)
    wait_until("nothing is left", lambda: not led.node(second)["metadata"]["annotations"].get(ISOLATION_ANNOTATION))
    assert entry() is None
    assert objects.condition(led.node(second), CONDITION) == "True"


def commands(client: "redis.Redis", node: str) -> list[Any]:
    """What the node was asked for, peers aside."""
    entries: Any = client.xrange(commands_stream(node))
    found = [decode_command(fields[COMMAND_FIELD.encode()], node=node) for _, fields in entries]
    return [one.body for one in found if one.kind != "peers"]
