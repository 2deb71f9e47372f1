"""What the reader of a global rank table demands of it: a table that it would refuse is never published.

The MS Controller keeps its old topology when it is given a table that breaks one of these rules, and says so in its own
log only. Source: MindIE Motor NodeScheduler (its checks of groups, coordinators and devices); one address of one pod.
"""

from __future__ import annotations

from collections import Counter

from reconciler.ranktable.schema import COORDINATORS, FIRST_INSTANCE, GlobalTable

MAX_GROUPS = 98
MAX_COORDINATORS = 2
MAX_DEVICES = 128


def refused(table: GlobalTable) -> str | None:
    """Why the MS Controller would refuse it, None when it would not."""
    groups = table.server_group_list
    numbers = [int(group.group_id) for group in groups]
    if not 2 <= len(groups) <= MAX_GROUPS:
        return f"{len(groups)} groups, 2 to {MAX_GROUPS} are read"
    if len(set(numbers)) != len(numbers):
        return "a group id is given twice"
    if not any(number >= FIRST_INSTANCE for number in numbers):
        return "no instance is complete"
    for number, group in zip(numbers, groups, strict=True):
        if not group.server_list or group.server_count != str(len(group.server_list)):
            return f"group {number} lists {len(group.server_list)} servers, its count is {group.server_count}"
        if number == COORDINATORS and len(group.server_list) > MAX_COORDINATORS:
            return f"{len(group.server_list)} coordinators, {MAX_COORDINATORS} are read"
        for server in group.server_list:
            if not server.server_ip or not server.server_id:
                return f"group {number} lists a server without address"
            if number >= FIRST_INSTANCE and not 1 <= len(server.device) <= MAX_DEVICES:
                return f"server {server.server_ip} has {len(server.device)} devices, 1 to {MAX_DEVICES} are read"
    counted = Counter(server.server_ip for group in groups for server in group.server_list)
    if twice := sorted(address for address, count in counted.items() if count > 1):
        return f"{twice[0]} is listed twice"
    return None
