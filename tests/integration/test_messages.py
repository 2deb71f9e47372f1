"""Redis holds nonsense: it is counted, kept apart and never fatal."""

import json
import time
from typing import Any

from redis import Redis

from shared.model import SCHEMA_VERSION
from shared.names import EVENTS_STREAM, report_key
from tests.integration.rig import DECODE, HBM, PREFILL, Rig, homes, our_taint, uids
from tests.waiting import wait_until

MASTER = f"{PREFILL}-master-0"
ACCEPTED = "npuwarden_reconciler_reports_total"
REJECTED = "npuwarden_reconciler_rejected_reports_total"


def plain_report(node: str, *, v: int = SCHEMA_VERSION, session: str = "s", seq: int = 1, **more: Any) -> bytes:
    agent = {"version": "test"}
    head = {"v": v, "node": node, "session": session, "seq": seq, "boot_id": "b", "at": time.time(), "agent": agent}
    return json.dumps({**head, **more}).encode()


def say(redis: Redis, node: str, report: bytes) -> None:
    """Write the node's key and the note that makes the reconciler read it."""
    redis.set(report_key(node), report)
    redis.xadd(EVENTS_STREAM, {"note": json.dumps({"v": SCHEMA_VERSION, "node": node, "session": "s", "seq": 1})})


def test_bad_messages_are_counted_and_a_real_fault_is_still_handled(led: Rig) -> None:
    assert led.leader is not None
    leader = led.leader
    old, decode = led.mindie_pair()
    broken = old[MASTER]["spec"]["nodeName"]
    other = next(name for name in led.nodes if name != broken)

    def counted(reason: str, before: float) -> None:
        wait_until(f"{reason} is counted", lambda: leader.metric(REJECTED, reason=reason) == before + 1)

    def accepted(report: bytes) -> None:
        before = leader.metric(ACCEPTED)
        say(led.redis, other, report)
        wait_until("it is accepted", lambda: leader.metric(ACCEPTED) > before)

    def rejected(reason: str, *reports: bytes) -> None:
        """All but the last are good."""
        for good in reports[:-1]:
            accepted(good)
        before = leader.metric(REJECTED, reason=reason)
        say(led.redis, other, reports[-1])
        counted(reason, before)

    before = leader.metric(REJECTED, reason="bad-note")
    led.redis.xadd(EVENTS_STREAM, {"note": b"\xff{garbage", "more": b"\x00"})
    counted("bad-note", before)
    rejected("malformed", b"\x00\xffno report at all")
    rejected("schema", plain_report(other, v=0))
    rejected("wrong-node", plain_report("somebody-else"))
    rejected("old-seq", plain_report(other, session="one", seq=9), plain_report(other, session="one", seq=8))
    rejected("retired-session", plain_report(other, session="two"), plain_report(other, session="one", seq=10))
    accepted(plain_report(other, session="two", seq=2, invented_later={"a": [1]}))
    assert led.taint(other) is None

    led.agent(broken).subscribed()
    led.host(broken).occur(3, HBM)
    led.recovered()
    led.journal.wait("the taint", "Node", broken, our_taint)
    assert broken not in homes(led.running(PREFILL, 2))
    assert uids(led.running(DECODE, 2)) == uids(decode)
