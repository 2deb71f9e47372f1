"""`npu-warden faults --repair`: which chips a person with a screwdriver is to look for, and how sure that is."""

from __future__ import annotations

import time
from typing import Any

from console.cli.output import ago
from console.cli.recovery import unix

COLUMNS = ("NODE", "CHIP", "PCI", "DIE", "WHAT", "AGE", "ISOLATED")

Item = dict[str, Any]


def repair_row(row: Item) -> tuple[object, ...]:
    """AGE: of the fault. ISOLATED: for how long the node has taken no new work, `no` = it takes work."""
    since = unix(row["since"])
    what = " ".join(text for text in (row["code"], row["meaning"] or row["level"]) if text)
    marks = f" ({', '.join(row['marks'])})" if row["marks"] else ""
    isolated = ago(row["isolated_s"]) or "no"
    age = None if since is None else ago(time.time() - since)
    return row["node"], row["chip"], row["pci"], row["die"], f"{what}{marks}", age, isolated
