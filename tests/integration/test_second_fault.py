"""Faults that come and go close together: none waits for another, and one that is gone in time kills nothing."""

from shared.model import FaultLevel
from tests.integration.checks import deleted_uids, ended, home, renewed, tainted_first
from tests.integration.policies import rules
from tests.integration.reports import chip_fault, say
from tests.integration.rig import PREFILL, Rig, homes, our_taint, terminating, uids
from tests.waiting import wait_until

MASTER = f"{PREFILL}-master-0"
CHATTER = 40


def test_a_fault_on_the_replacement_is_acted_on_at_once(led: Rig) -> None:
    led.add_nodes(4)
    led.mindie(PREFILL)
    old = led.running(PREFILL, 2)

    say(led, home(old[MASTER]), chip_fault())
    between = renewed(led, PREFILL, old)
    say(led, home(between[MASTER]), chip_fault())
    new = renewed(led, PREFILL, between)

    # The first ends as Recovered, or as Superseded where the fault was quicker than the proof.
    def over() -> bool:
        return [bool(one["status"]["times"].get("finished")) for one in led.recoveries()] == [True, True]

    wait_until("both recoveries have ended", over)
    phases = sorted(one["status"]["phase"] for one in led.recoveries())
    assert phases in (["Recovered", "Recovered"], ["Recovered", "Superseded"])
    assert not homes(new) & {home(old[MASTER]), home(between[MASTER])}
    assert deleted_uids(led) == {*uids(old).values(), *uids(between).values()}
    assert [one["status"].get("charged", 0) for one in led.recoveries()] == [0, 0], "hardware costs no retry"


def test_chatter_before_a_fault_neither_hides_nor_delays_it(led: Rig) -> None:
    led.add_nodes(3)
    led.mindie(PREFILL)
    old = led.running(PREFILL, 2)
    broken = home(old[MASTER])

    for number in range(CHATTER):
        say(led, broken, *[chip_fault("80F38009", FaultLevel.NOT_HANDLE)] * (number % 2))
    last = say(led, broken, chip_fault())
    recovery = led.recovered()

    assert last.seq > CHATTER
    renewed(led, PREFILL, old)
    tainted_first(led, broken, old)
    assert [fault.partition(" ")[0] for fault in recovery["spec"]["cause"]["faults"]] == [last.faults[0].id]


def test_a_fault_that_is_gone_before_the_delete_kills_nothing(led: Rig) -> None:
    led.add_nodes(3)
    led.mindie(PREFILL)
    old = led.running(PREFILL, 2)
    broken = home(old[MASTER])

    with rules(led, reschedule={"settle_s": 5}):
        say(led, broken, chip_fault())
        led.journal.wait("the taint", "Node", broken, our_taint)
        say(led, broken)
        (recovery,) = ended(led, "Aborted")
        wait_until("the node is given back", lambda: led.taint(broken) is None)

    assert recovery["status"]["reason"] == "healed"
    assert uids(led.running(PREFILL, 2)) == uids(old)
    assert not [entry for entry in led.journal.of("Pod") if terminating(entry.object)]
