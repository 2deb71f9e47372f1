"""Probes that no longer run, and probes that fail again and again: what they have found, and what is said of them."""

import pytest

from agent.detect.detector import PROBE_GONE_S
from agent.detect.looks import FAILED_LOOKS, KEPT_LOOKS
from agent.detect.readings import ChipFinding, LinkReading, NodeFinding
from shared.names import CODE_LINK_DOWN
from tests.detect.bench import Bench, at, good

FOUND = {"NW-HCCS@1", "NW-DISK-FULL@node", f"{CODE_LINK_DOWN}@2"}


def with_findings() -> Bench:
    bench = Bench()
    bench.poll(0, good(1), good(2))
    bench.detector.chips([ChipFinding(1, "NW-HCCS", True)], at(0), probe="hccs")
    bench.detector.node([NodeFinding("NW-DISK-FULL", True)], at(0), probe="host_disk")
    bench.detector.links([LinkReading(2, up=False)], at(0), probe="link_state")
    return bench


def restarted(bench: Bench, mono: float, *probes: str) -> tuple[Bench, list[str]]:
    after = Bench(memory=bench.detector.memory(at(mono)))
    complaints = after.detector.forget_probes(set(probes), at(mono))
    after.poll(mono, good(1), good(2))
    return after, complaints


def test_what_a_removed_probe_has_found_is_unknown_first_and_over_in_the_end() -> None:
    after, complaints = restarted(with_findings(), 10, "link_state")
    assert set(after.faults(11)) >= FOUND
    assert {one.probe: one.why for one in after.view(11).unknown}.keys() == {"hccs", "host_disk"}
    assert "NW-HCCS@1" in next(one.why for one in after.view(11).unknown if one.probe == "hccs")
    assert [line.split(":")[0] for line in complaints] == ["probe hccs", "probe host_disk"]
    assert set(after.faults(10 + PROBE_GONE_S)) >= FOUND
    assert set(after.faults(10 + PROBE_GONE_S + 1)) == {f"{CODE_LINK_DOWN}@2"}, "with it goes NW-PROBE"
    assert after.view(10 + PROBE_GONE_S + 1).unknown == ()


def test_restarts_do_not_put_it_off() -> None:
    after, _ = restarted(with_findings(), 10, "link_state", "hccs")
    for mono in range(600, 3600, 600):
        after, _ = restarted(after, mono, "link_state", "hccs")
    assert "NW-DISK-FULL@node" in after.faults(3610)
    assert "NW-DISK-FULL@node" not in after.faults(3611)


def test_it_wakes_for_the_end() -> None:
    after, _ = restarted(with_findings(), 10, "link_state", "hccs")
    assert after.detector.wake_at is not None
    after.view(400)  # NW-PROBE is raised, no other timer is left
    assert after.detector.wake_at == pytest.approx(10 + PROBE_GONE_S, abs=0.01)


def test_a_probe_that_is_back_decides_again() -> None:
    after, _ = restarted(with_findings(), 10, "link_state", "hccs")
    back, complaints = restarted(after, 20, "link_state", "hccs", "host_disk")
    assert (complaints, back.view(21).unknown) == ([], ())
    assert set(back.faults(20 + 2 * PROBE_GONE_S)) >= FOUND, "nobody has looked yet"
    back.detector.node([NodeFinding("NW-DISK-FULL", False)], at(9000), probe="host_disk")
    assert "NW-DISK-FULL@node" not in back.faults(9000)


@pytest.mark.parametrize(("failed", "told"), [(FAILED_LOOKS - 1, False), (FAILED_LOOKS, True)])
def test_a_probe_that_fails_often_is_told_though_it_never_fails_for_long(failed: int, told: bool) -> None:
    bench = Bench()
    for look in range(KEPT_LOOKS):
        bench.detector.node_blind("optical", "I2c is busy" if look % 2 and look < 2 * failed else None, at(look))
    bench.detector.node_blind("kmsg", None, at(KEPT_LOOKS))
    assert ("NW-PROBE@node" in bench.faults(KEPT_LOOKS)) is told
    if told:
        assert "I2c is busy" in bench.fault(KEPT_LOOKS, "NW-PROBE@node").evidence["optical"]
        after = Bench(memory=bench.detector.memory(at(KEPT_LOOKS)))
        after.detector.forget_probes({"optical"}, at(21))
        assert "NW-PROBE@node" in after.faults(22), "a restart makes it no better"
        for look in range(KEPT_LOOKS):
            after.detector.node_blind("optical", None, at(30 + look))
        assert after.faults(60) == {}
