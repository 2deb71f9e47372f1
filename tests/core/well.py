"""A node as the warden leaves one that is well: nothing is to be written to it."""

from __future__ import annotations

from typing import Any

from shared.names import CONDITION, OFFERED_ANNOTATION
from tests.core.build import CHIPS, node


def well(name: str) -> dict[str, Any]:
    made = node(name)
    made["metadata"]["annotations"] = {OFFERED_ANNOTATION: f'{{"huawei.com/Ascend910":{CHIPS}}}'}
    message = "no open fault of RestartRequest or above"
    made["status"]["conditions"].append({"type": CONDITION, "status": "True", "reason": "Healthy", "message": message})
    return made
