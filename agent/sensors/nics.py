"""Network cards of the host, by netlink (RTM_GETLINK)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

IFF_UP = 0x1


class Nic(msgspec.Struct, frozen=True):
    """One interface. `downs`: how often it has lost its carrier since boot, `ups`: how often it got one.

    `master`: the bond it is a port of. `hardware`: a device of the host, and no bridge, tunnel or half of a pair.
    """

    name: str
    enabled: bool
    carrier: bool
    ups: int
    downs: int
    master: str | None = None
    hardware: bool = True


def read_nics(sysfs: Path) -> list[Nic]:
    """Every interface. Blocks for some milliseconds. Raises OSError, and pyroute2's NetlinkError is none of it."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as route:
            links = list(route.get_links())
    except NetlinkError as exc:
        raise OSError(exc.code, f"netlink: {exc}") from exc
    bonds = {link["index"]: link.get("IFLA_IFNAME") for link in links if _kind(link) == "bond"}
    return [
        Nic(
            name=link.get("IFLA_IFNAME"),
            enabled=bool(link["flags"] & IFF_UP),
            carrier=bool(link.get("IFLA_CARRIER")),
            ups=link.get("IFLA_CARRIER_UP_COUNT") or 0,
            downs=link.get("IFLA_CARRIER_DOWN_COUNT") or 0,
            master=bonds.get(link.get("IFLA_MASTER")),
            hardware=(sysfs / "class/net" / link.get("IFLA_IFNAME") / "device").exists(),
        )
        for link in links
    ]


def _kind(link: Any) -> str | None:
    kind: str | None = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND")
    return kind
