"""Which of the captured texts beside the checkout belong to which tool, by their file names."""

from __future__ import annotations

from pathlib import Path

from agent.decode.tools import TOOLS

_TYPES = ("health", "board", "ecc", "usages", "hccs", "topo")


def tool_of(path: Path) -> str | None:
    """The tool of `<program>-<generation or subject>-...txt`; None for text that no tool here reads."""
    name = path.stem
    words = name.removeprefix("hccn_tool-").removeprefix("npu-smi-").split("-")
    if name.startswith(("lspci", "kmsg")):
        return words[0]
    if name.startswith("hccn_tool"):
        subjects = (word.removesuffix("_tz").removesuffix("_long").replace("_", "-") for word in words[:2])
        return next((f"hccn-{subject}" for subject in subjects if f"hccn-{subject}" in TOOLS), None)
    if not name.startswith("npu-smi"):
        return None
    typed = next((word.removeprefix("t_") for word in words if word.startswith("t_")), "")
    for kind in _TYPES:
        if typed.split("_")[0] == kind:
            return f"npu-smi-{kind}"
    if typed.startswith("proc"):
        return "npu-smi-proc-mem"
    if typed.startswith("spod"):
        return "npu-smi-spod"
    if typed or words[0] in {"badcard", "badtype", "badchip", "noargs", "version"}:
        return None
    if "mcu-chip-health" in name:
        return "npu-smi-health"
    if "info" in words:
        after = words[words.index("info") + 1 : words.index("info") + 2]
        return f"npu-smi-{after[0]}" if after in (["m"], ["l"]) else "npu-smi-info"
    return next((f"npu-smi-{word}" for word in words[1:2] if word in {"m", "l"}), None)
