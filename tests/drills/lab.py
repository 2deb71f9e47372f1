"""The drill commands on a lab, and what they leave there."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from console.lab.rig import LabRig
from console.lab.workloads import instance
from shared.names import DRILL_ANNOTATION, TAINT_KEY, report_key
from shared.wire import decode_report

NPU_WARDEN = str(Path(sys.executable).with_name("npu-warden"))
NODE = "node-0"


async def command(rig: LabRig, *args: str) -> asyncio.subprocess.Process:
    env = {**os.environ, "KUBECONFIG": str(rig.kubeconfig), "NPUWARDEN_URL": rig.reconciler}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(NPU_WARDEN, "drill", *args, env=env, stdout=pipe, stderr=pipe)


async def drill(rig: LabRig, *args: str, node: str | None = NODE) -> tuple[int, Any, str]:
    """Exit code, the report, and what was said beside it."""
    where = ("--node", node) if node is not None else ()
    process = await command(rig, "run", *args, *where, "--format", "json")
    out, err = await process.communicate()
    assert out, err.decode()
    return process.returncode or 0, json.loads(out), err.decode()


async def shown_faults(rig: LabRig, node: str = NODE) -> set[str]:
    raw = await rig.redis.get(report_key(node))
    assert isinstance(raw, bytes)
    return {fault.id for fault in decode_report(raw, node=node).faults}


def annotation(rig: LabRig, node: str = NODE) -> str | None:
    (found,) = [one for one in rig.cluster.store.objects("nodes") if one["metadata"]["name"] == node]
    return (found["metadata"].get("annotations") or {}).get(DRILL_ANNOTATION)


def tainted(rig: LabRig, node: str = NODE) -> bool:
    (found,) = [one for one in rig.cluster.store.objects("nodes") if one["metadata"]["name"] == node]
    return any(taint["key"] == TAINT_KEY for taint in (found.get("spec") or {}).get("taints") or ())


def pods(rig: LabRig) -> dict[str, str]:
    """The instance of each pod, by its UID."""
    return {pod["metadata"]["uid"]: instance(pod) for pod in rig.cluster.store.objects("pods")}
