"""The page beside real daemons: a chip breaks, its instance restarts elsewhere, the node is released, all unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.lab import workloads
from console.lab.cluster.podstatus import chips_of
from console.lab.demo import everything_ready
from console.lab.rig import lab_rig
from reconciler.core.recovery import OPEN_PHASES
from tests.page.chromium import chromium, needs_chromium, opened

pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.timeout(240)]

CODE = "80E18402"


WATCH = """() => {
  window.phases = [];
  const look = () => document.querySelectorAll("#recoveries-list > li").forEach((one) => {
    if (window.phases.at(-1) !== one.dataset.phase) window.phases.push(one.dataset.phase);
  });
  new MutationObserver(look).observe(document.getElementById("recoveries-list"), { childList: true });
}"""
"""Keeps every phase that is ever shown, for as long as it is the same document."""


async def test_a_fault_appears_its_recovery_advances_the_node_is_released(tmp_path: Path) -> None:
    async with lab_rig(tmp_path, nodes=4) as rig, chromium() as browser:
        workloads.apply(rig.cluster)
        await everything_ready(rig, timeout_s=60)
        async with opened(browser, f"{rig.reconciler}/") as seen:
            await seen.until_text("#headline", "All is well on 4 nodes with 32 chips")
            await seen.page.evaluate(WATCH)
            pods = rig.cluster.store.objects("pods")
            hit = next(one for one in pods if workloads.instance(one) == f"{workloads.MINDIE}/{workloads.PREFILL}")
            node, chip = hit["spec"]["nodeName"], chips_of(hit)[-1]

            rig.hosts[node].occur(chip, CODE)
            await seen.until_text("#faults-body", CODE)
            assert f"{node} chip {chip}" in await seen.text("#faults-body")
            await seen.until_text("#troubled-list", node)
            await seen.until("it has recovered", "window.phases.at(-1) === 'Recovered'")
            phases = await seen.page.evaluate("window.phases")
            assert set(phases[:-1]) & OPEN_PHASES, f"it advanced: {phases}"
            bar = await seen.page.locator("#recoveries-list .timeline").first.get_attribute("aria-label")
            assert bar is not None
            assert "isolate" in bar
            assert "start" in bar

            rig.hosts[node].heal(chip)
            await seen.until("the fault goes", "document.getElementById('faults-body').rows.length === 0")
            await seen.until("the node is released", "document.getElementById('troubled').hidden")
            await seen.until_text("#headline", "All is well on 4 nodes with 32 chips")
            assert await seen.page.evaluate("window.phases") == phases, "without a reload"
            assert seen.complaints == []
