"""From a chip's fault to the first delete, and to both pods of the instance Running, with a scheduler like Volcano's.

The set-up of `event_to_taint`, but what places the pods looks once a second and places a job's pods all at once. So
half a second of it, at the mean, is waiting for that scheduler's next look.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.event_to_taint import one_run, warden
from tests.bench.gang_scheduler import GangScheduler
from tests.bench.line import line

RUNS, CYCLE_S = 10, 1.0
GOALS_S = {"event_to_first_delete": 0.4, "event_to_ready_again": 1.5}
NAMES = {"event_to_first_delete": "fault_to_first_delete", "event_to_ready_again": "fault_to_running"}


def run() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="npu-warden-bench-") as directory,
        warden(Path(directory)) as (rig, _, _agents, notes),
        rig.plane.outage("kube-scheduler"),
    ):
        scheduler = GangScheduler(rig.api, rig.namespace, CYCLE_S)
        try:
            one_run(rig, notes)  # the first one warms connections and caches up
            taken = [one_run(rig, notes) for _ in range(RUNS)]
        finally:
            scheduler.close()
        for measured, name in NAMES.items():
            values = [one[measured] for one in taken]
            yield line(name, "s", values, goal=GOALS_S[measured], note=f"the scheduler looks every {CYCLE_S:g} s")
