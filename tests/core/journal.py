"""Recoveries as the API server would serve them, for tests of what is counted from them and kept of them."""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.core import clock
from reconciler.core.recovery import Cause, History, RecoverySpec, RecoveryStatus, Times, WorkloadRef
from tests.core.worlds import T0

JOB = WorkloadRef("mindxdl.gitee.com/v1", "AscendJob", "j", "uid-j")


def recovery(
    number: int,
    *,
    unit: str = "ml/j",
    level: str = "Job",
    instance: str = "",
    phase: str = "Recovered",
    charged: int = 0,
    history: History | None = None,
    workload: WorkloadRef = JOB,
    controller: WorkloadRef | None = None,
    escalated_from: str = "",
    name: str = "",
) -> dict[str, Any]:
    """The `number`th of its unit, opened that many minutes after T0."""
    spec = RecoverySpec(
        workload=workload,
        unit=unit,
        level=level,
        method="force",
        cause=Cause("Hardware", ("80E18402@3 on a",), ("a",)),
        instance=instance,
        controller=controller or workload,
        size=1 if level == "Pod" else 2,
        escalated_from=escalated_from,
        history=history or History(of=unit, recoveries=number),
    )
    opened = clock.seconds(T0.wall + 60 * number)
    status = RecoveryStatus(phase=phase, charged=charged, holder="me", times=Times(detected=opened, claimed=opened))
    name = name or f"{unit.rpartition('/')[2]}-{number:03}"
    return {
        "apiVersion": "npuwarden.io/v1alpha1",
        "kind": "Recovery",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": opened,
        },
        "spec": msgspec.to_builtins(spec),
        "status": msgspec.to_builtins(status),
    }
