"""What the stand-in for `hccn_tool` says of the ports of a 950, which it knows by die and port: RoCE (ETH) and UB."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from console.lab.host.chip import Device, LinkChange

UP, PARTIAL, DOWN = 1, 2, 3
FLITS = ("tx_busi_flit_num", "rx_busi_flit_num")
UB_DIE = 0


@dataclass(frozen=True, slots=True)
class Port:
    """kind: the tool's word. enabled False: nothing is wired to it."""

    udie: int
    port: int
    kind: str
    up: bool
    enabled: bool = True
    log: Sequence[LinkChange] = ()


def ports_of(device: Device) -> list[Port]:
    """Its UB ports, then its RoCE ports."""
    ub = [Port(UB_DIE, n, "UB", is_ in (UP, PARTIAL)) for n, is_ in enumerate(device.ub.ports) if is_]
    return [*ub, *(Port(p.udie, p.port, "ETH", p.up and p.wired, p.wired, tuple(p.log)) for p in device.roce)]


def _dev_info(device: Device, _arguments: Sequence[str]) -> str | None:
    border = "+---------+---------+---------------------+-----------+-------------+------------+"
    heading = "| UDie ID | Port ID | Speed Ability(Gbps) | Port Type | Link Status | Media Type |"
    rows = [
        f"| {port.udie:<7} | {port.port:<7} | {400:<19} | {port.kind:<9} | {'UP' if port.up else 'DOWN':<11} "
        f"| {'Electrical' if port.kind == 'UB' else 'Optical':<10} |"
        for port in ports_of(device)
    ]
    rule = "+-----------------+------------+---------+-----------+--------+"
    names = "| Interface Name  | IP Address | Netmask | Bond Mode | Slaves |"
    return "\n".join([border, heading, border, *rows, border, rule, names, rule, rule]) + "\n"


def _port_info(device: Device, arguments: Sequence[str]) -> str | None:
    port = _port(device, arguments)
    if port is None:
        return None
    enabled, link = "on" if port.enabled else "off", "link" if port.up else "unlink"
    lines = [
        f"port_id: 0x{port.port:x}",
        f"port_enable: {enabled}",
        f"port_link: {link}",
        "port_mode: PORT_MODE_SHARED",
    ]
    return "\n".join(lines) + "\n"


def _stat(device: Device, arguments: Sequence[str]) -> str | None:
    port = _port(device, arguments)
    if port is None:
        return None
    counters = dict.fromkeys(FLITS, 0) | {name: device.net.stat.get(name, 0) for name in FLITS}
    lines = [f"port_id: {port.port}", "is_uboe_port: 0", *(f"{name}: {count}" for name, count in counters.items())]
    return "packet statistics:\n" + "\n".join(lines) + "\n"


def _port(device: Device, arguments: Sequence[str]) -> Port | None:
    """The one that -u and -p name."""
    said = {name: value for name, value in itertools.pairwise(arguments) if name in ("-u", "-p")}
    return next((one for one in ports_of(device) if said == {"-u": str(one.udie), "-p": str(one.port)}), None)


def link_log(device: Device, arguments: Sequence[str]) -> Sequence[LinkChange] | None:
    """The history of the port that is named; None when none is, or it is no RoCE port."""
    port = _port(device, arguments)
    return port.log if port is not None and port.kind == "ETH" else None


COMMANDS: Mapping[str, Callable[[Device, Sequence[str]], str | None]] = {
    "dev_info": _dev_info,
    "port_info": _port_info,
    "stat": _stat,
}
"""What each prints; None for a port that the chip does not have."""
