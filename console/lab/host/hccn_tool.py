"""The stand-in for `hccn_tool`: what the RoCE port of a chip says, answered from the state file.

Its ids are physical ids (logic ids on generation 950). Errors go to standard error, except "busy" and the like;
it never asks whether the chip itself is well, but waits five minutes for one that is not ready.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from console.lab.host import hccn_950
from console.lab.host.chip import Device, LinkChange, Net, Optical
from console.lab.host.driver import STARTED, Driver, state_path
from console.lab.host.state import HostState, StateError, load, locked, save
from shared.commands import is_ipv4

_NOT_READY_WAIT_S = 300
_RECORDS_SHOWN = 10
_NET_HEALTH_WORDS = (
    "Success",
    "Socket fail",
    "Receive timeout",
    "Unreachable",
    "Time exceeded",
    "Fault",
    "Init",
    "Thread error",
    "Detect ip set",
    "Unknown",
)
_OPTICAL_KEY = 21
_PINGS = 3


@dataclass(frozen=True, slots=True)
class Output:
    """What one call prints and its exit code."""

    stdout: str = ""
    stderr: str = ""
    rc: int = 0


_NO_DEVICE = Output(stderr="Get invalid device id.\n", rc=4)
_NO_COMMAND = Output(stderr="Get invalid major cmd.\nEnter [ hccn_tool -h ] for more details.\n", rc=3)
_NO_PEER = Output(stderr="Get invalid ip address.\n", rc=4)
_INCOMPLETE = Output(stderr="The total count of input parameters is wrong!\n", rc=4)
_NOT_READY = Output(stderr="Get device health status failed!\n", rc=3)
_NO_ADDRESS = Output(stderr="Get ipconf failed, because no ip was preset there!\n", rc=13)


def run(arguments: list[str], state: Path | None) -> Output:
    """Answer one command line."""
    try:
        driver = Driver(state)
    except StateError as exc:
        return Output(stderr=f"hccn_tool (lab): {exc}\n", rc=_NO_DEVICE.rc)
    command, number = _parse(arguments)
    device = _find(driver.state, number)
    commands: dict[str, Callable[[HostState, Device], Output]] = {**_COMMANDS, "ping": partial(_ping, arguments)}
    if driver.state.generation == "950":
        commands |= {name: partial(_by_port, name, arguments) for name in hccn_950.COMMANDS}
        commands["link_stat"] = partial(_link_stat_950, arguments)
    if command in commands:
        instead = driver.tool_rule("hccn_tool", command, device)
        if instead is not None:
            return Output(instead.stdout, instead.stderr, instead.rc)
    if "-g" not in arguments:
        return _INCOMPLETE
    if command not in commands:
        return _NO_COMMAND
    if device is None or not device.enumerated or driver.state.faults.init.ret != 0:
        return _NO_DEVICE
    if device.occupied or device.boot_status != STARTED:
        time.sleep(_NOT_READY_WAIT_S)
        return _NOT_READY
    answer = commands[command](driver.state, device)
    if command == "optical" and (any(device.net.optical.los) or any(device.net.optical.lol)):
        _clear_latches(driver, device.phy)
    return answer


def _parse(arguments: list[str]) -> tuple[str, int | None]:
    command, number = "", None
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-i", "-u", "-p"):
            value = next(rest, "")
            if argument == "-i" and value.isdecimal():
                number = int(value)
        elif argument.startswith("-") and argument != "-g":
            command = argument[1:]
    return command, number


def _find(state: HostState, number: int | None) -> Device | None:
    for device in state.devices:
        if number == (device.logic if state.generation == "950" else device.phy):
            return device
    return None


def _clear_latches(driver: Driver, phy: int) -> None:
    """The flag registers of the module are cleared by reading them."""
    with locked(driver.path):
        state = load(driver.path)
        devices = []
        for device in state.devices:
            if device.phy == phy:
                optical = replace(device.net.optical, los=(0, 0), lol=(0, 0))
                device = replace(device, net=replace(device.net, optical=optical))
            devices.append(device)
        save(driver.path, replace(state, devices=devices))


def _by_port(name: str, arguments: list[str], _state: HostState, device: Device) -> Output:
    text = hccn_950.COMMANDS[name](device, arguments)
    return _NO_DEVICE if text is None else Output(text)


def _link_stat_950(arguments: list[str], state: HostState, device: Device) -> Output:
    log = hccn_950.link_log(device, arguments)
    return _link_stat(state, device if log is None else replace(device, net=replace(device.net, link_log=list(log))))


def _link(_state: HostState, device: Device) -> Output:
    return Output(f"link status: {device.net.link}\n")


def _net_health(_state: HostState, device: Device) -> Output:
    index = device.net.net_health
    return Output(f"net health status: {_NET_HEALTH_WORDS[index] if 0 <= index < 10 else 'Unknown'}\n")


def _link_stat(state: HostState, device: Device) -> Output:
    log = device.net.link_log
    ups = sum(change.up for change in log)
    newest_first = sorted(log, key=lambda change: change.t)[::-1][:_RECORDS_SHOWN]
    if state.generation == "950":
        return Output(_link_table(device, newest_first, ups, len(log) - ups))
    mark = f"[devid {device.phy}]"
    lines = [f"{mark}current time        : {_stamp(time.time())}", f"{mark}link up count       : {ups}"]
    if state.generation != "910A":
        lines.append(f"{mark}link down count     : {len(log) - ups}")
    lines.append(f"{mark}link change records :{'' if log else ' NA'}")
    lines += [f"{mark}    {_stamp(change.t)}    LINK {'UP' if change.up else 'DOWN'}" for change in newest_first]
    return Output("\n".join(lines) + "\n")


def _link_table(device: Device, records: list[LinkChange], ups: int, downs: int) -> str:
    border = "+-----+------+------+-------------+--------------------------+"
    rows = [
        f"|  {device.logic:<2} |  0   |  4   |  LINK_{'UP' if change.up else 'DOWN':<5} | {_stamp(change.t):<24} |"
        for change in records
    ]
    heading = f"| NPU | UDie | Port | Link_Status | {'Time_Stamp':<24} |"
    return (
        "\n".join([f"link up count :    {ups}", f"link down count :  {downs}", border, heading, border, *rows, border])
        + "\n"
    )


def _stamp(t: float) -> str:
    return time.asctime(time.localtime(t))  # local time, as the tool prints it


def _speed(state: HostState, device: Device) -> Output:
    speed = device.net.speed
    if state.generation == "950":
        status = "normal" if device.net.link == "UP" else "abnormal"
        border = "+-----+------+------+---------+-----+-------+-----------+"
        heading = "| NPU | UDie | Port | Speed   | Cap | Width | Status    |"
        row = f"| {device.logic:<3} | 0    | 4    | {f'{max(speed, 0) // 1000} G':<7} | X4  | X4    | {status:<9} |"
        return Output("\n".join([border, heading, border, row, border]) + "\n")
    return Output("Speed: Unknown!\n" if speed == 0xFFFF else f"Speed: {speed} Mb/s\n")


def _fec(_state: HostState, device: Device) -> Output:
    return Output(f"fec mode: {device.net.fec} FEC mode\n")


def _ip(_state: HostState, device: Device) -> Output:
    if device.net.ip is None:
        return _NO_ADDRESS
    return Output(f"ipaddr:{device.net.ip}\nnetmask:{device.net.mask}\n")


def _gateway(_state: HostState, device: Device) -> Output:
    if device.net.gateway is None:
        return _NO_ADDRESS
    return Output(f"default gateway:{device.net.gateway}, Iface:eth{device.phy}\n")


def _lldp(_state: HostState, device: Device) -> Output:
    return Output(f"Port ID TLV\n\tIfname: {device.net.lldp.port}\nSystem Name TLV\n\t{device.net.lldp.sys}\n")


def _ping(arguments: list[str], _state: HostState, device: Device) -> Output:
    """`-ping -g address ADDRESS`: three packets, each answered or not."""
    address = arguments[-1] if "address" in arguments[:-1] else ""
    if not is_ipv4(address):
        return _NO_PEER
    if device.net.ip is None:
        return _NO_ADDRESS
    lost = device.net.link == "DOWN" or not {address, "*"}.isdisjoint(device.net.unreachable)
    lines = [f"recv time out seq={n}" if lost else f"recv seq={n},time=0.080000ms" for n in range(_PINGS)]
    summary = f"{_PINGS} packets transmitted, {0 if lost else _PINGS} received, {100 * lost:.2f}% packet loss"
    return Output("\n".join([f"device {device.phy} PING {address}", *lines, summary]) + "\n")


def _stat(_state: HostState, device: Device) -> Output:
    counters = dict.fromkeys(_STAT_KEYS, 0) | device.net.stat
    return Output("packet statistics:\n" + "".join(f"{key}:{count}\n" for key, count in counters.items()))


def _stat_keys() -> tuple[str, ...]:
    pause = [f"mac_{way}_mac_pause_num" for way in ("tx", "rx")]
    priorities = ["", *(f"pri{i}_" for i in range(8))]
    pfc = [f"mac_{way}_pfc_{priority}pkt_num" for way in ("tx", "rx") for priority in priorities]
    totals = [
        f"mac_{way}_{kind}_{unit}_num" for way in ("tx", "rx") for kind in ("total", "bad") for unit in ("pkt", "oct")
    ]
    roce = [f"roce_{way}_{kind}_pkt_num" for way in ("rx", "tx") for kind in ("rc", "all", "err")]
    more = ["cqe", "rx_cnp_pkt", "tx_cnp_pkt", "unexpected_ack", "out_of_order", "verification_err", "qp_status_err"]
    more += ["new_pkt_rty", "ecn_db"]
    nic = [f"nic_{way}_all_{unit}_num" for way in ("tx", "rx") for unit in ("pkg", "oct")]
    return (*pause, *pfc, *totals, "mac_rx_fcs_err_pkt_num", *roce, *(f"roce_{name}_num" for name in more), *nic)


_STAT_KEYS = _stat_keys()


def _ub_connect(state: HostState, device: Device) -> Output:
    words = {1: "UP", 2: "PARTIAL UP", 3: "DOWN"}
    ports = {number: words[port] for number, port in enumerate(device.ub.ports) if port in words}
    if state.generation != "950" or not ports:
        return Output(stderr="Command unsupported on this device.\n", rc=3)
    whole = set(ports.values())
    status = whole.pop() if whole <= {"UP"} or whole <= {"DOWN"} else "PARTIAL LINK"
    return Output(f"link status : {status}\n" + "".join(f"port {number} : {word}\n" for number, word in ports.items()))


def _optical(_state: HostState, device: Device) -> Output:
    module = device.net.optical
    values = _present(device.net, module) if module.present else _absent()
    rows = [
        ("present", "present" if module.present else "not present"),
        ("temperature", f"{module.temp} C" if module.present else "NA"),
        ("high power enable reg", "not enabled"),
        ("vendor name", "LAB"),
        ("vendor part number", "PN-LAB"),
        ("vendor serial number", f"SN-LAB-{device.phy:02d}"),
        ("xsfp identifier", "QSFP+ or later"),
        ("xsfp wave length", "850 nm"),
        *values,
    ]
    return Output("optical info:\n" + "".join(f"{key:<{_OPTICAL_KEY}}: {value}\n" for key, value in rows))


def _present(net: Net, module: Optical) -> list[tuple[str, str]]:
    rows = [("Vcc", "3300.00 mV")]
    for lane, (tx, rx) in enumerate(zip(module.tx, module.rx, strict=False)):
        rows += [(f"Tx Power{lane}", f"{tx:.4f} mW"), (f"Rx Power{lane}", f"{rx:.4f} mW")]
    rows += [("Vcc High Thres", "3465.00 mV"), ("Vcc Low Thres", "3135.00 mV")]
    rows += [("Temp High Thres", "70 C"), ("Temp Low Thres", "0 C")]
    for name, (low, high) in (("TxPower", module.thr.tx), ("RxPower", module.thr.rx)):
        rows += [(f"{name} High Thres", f"{high:.4f} mW"), (f"{name} Low Thres", f"{low:.4f} mW")]
    rows += [(f"Tx Bias{lane}", "7.0000 mA") for lane in range(len(module.tx))]
    flags = (("Tx Los", module.los[0]), ("Rx Los", module.los[1]), ("Tx LoL", module.lol[0]), ("Rx LoL", module.lol[1]))
    rows += [(f"{name} Flag", f"0x{value:x}") for name, value in flags]
    rows += [(f"{side} SNR Lane{lane}", "not supported") for side in ("Host", "Media") for lane in range(4)]
    return rows


def _absent() -> list[tuple[str, str]]:
    limits = (f"{name} {end} Thres" for name in ("Vcc", "Temp", "TxPower", "RxPower") for end in ("High", "Low"))
    return [(name, "NA") for name in ("Vcc", "Tx Power", "Rx Power", *limits)]


_COMMANDS: Mapping[str, Callable[[HostState, Device], Output]] = {
    "link": _link,
    "link_stat": _link_stat,
    "net_health": _net_health,
    "speed": _speed,
    "fec": _fec,
    "ip": _ip,
    "gateway": _gateway,
    "lldp": _lldp,
    "stat": _stat,
    "ub_connect": _ub_connect,
    "optical": _optical,
}


def main() -> None:
    """Run as the program: print the answer and exit with its code."""
    output = run(sys.argv[1:], state_path())
    sys.stdout.write(output.stdout)
    sys.stdout.flush()
    sys.stderr.write(output.stderr)
    sys.exit(output.rc)


if __name__ == "__main__":
    main()
