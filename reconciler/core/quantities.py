"""NPUs among the resource amounts of pods and nodes. Source: the device plugins' resource names `huawei.com/*`."""

from __future__ import annotations

from collections.abc import Mapping

NPU_PREFIX = "huawei.com/"


def npus(amounts: Mapping[str, str]) -> dict[str, int]:
    """The NPU resources among resource amounts; zero, and what is no whole number, is left out."""
    return {name: int(n) for name, n in amounts.items() if name.startswith(NPU_PREFIX) and n.isdecimal() and int(n) > 0}
