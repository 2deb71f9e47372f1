"""What can happen to a simulated host, as pure functions from one state to the next.

Driver state and event go together, as in the real driver: a fault appears in the code list of its chip and is
announced. `announce=False` is a lost event, which only polling can notice.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from console.lab.host.chip import Active, Device, LinkChange, Proc
from console.lab.host.state import (
    EVENTS_KEPT,
    DriverRule,
    Event,
    Faults,
    HostState,
    Match,
    StateError,
    ToolRule,
    code_number,
)

RECOVERED, OCCURRED, ONE_OFF = 0, 1, 2
READINGS = "*"
SUBSCRIPTIONS = ("dcmi_subscribe_fault_event", "dcmiv2_subscribe_fault_event")
NOT_SUPPORTED = -8255
LINK_RECORDS = 10  # hccn_tool shows no more
NET_SUCCESS, NET_FAULT = 0, 5
SPEED_DOWN = -1


def occur(state: HostState, phy: int, code: str, severity: int, now_ms: int, *, announce: bool = True) -> HostState:
    """A fault begins: `code` joins the list of the chip, whose health is the worst of its active events."""
    name = _name(code)
    _check_severity(severity)

    def begin(device: Device) -> Device:
        return _with_active(device, {**_active(device, now_ms), name: Active(severity=severity, raised_ms=now_ms)})

    state = _change(state, phy, begin)
    return _announce(state, phy, name, severity, OCCURRED, now_ms) if announce else state


def recover(state: HostState, phy: int, code: str, now_ms: int, *, announce: bool = True) -> HostState:
    """A fault ends. Its event carries the time of the occurrence, as the driver's does. Raises StateError when
    the chip does not have the code."""
    name = _name(code)
    active = _active(state.device(phy), now_ms)
    was = active.pop(name, None)
    if was is None:
        raise StateError(f"chip {phy} has no active code {name}; it has {', '.join(active) or 'none'}")
    state = _change(state, phy, lambda device: _with_active(device, active))
    return _announce(state, phy, name, was.severity, RECOVERED, was.raised_ms) if announce else state


def once(state: HostState, phy: int, code: str, severity: int, now_ms: int) -> HostState:
    """A one-off notice: an event and nothing else."""
    _check_severity(severity)
    state.device(phy)
    return _announce(state, phy, _name(code), severity, ONE_OFF, now_ms)


def error(state: HostState, phy: int, ret: int) -> HostState:
    """Every reading of the chip fails with `ret` (its ids are known from a table and stay readable)."""
    state.device(phy)
    return _with_rule(state, READINGS, DriverRule(ret=ret, match=Match(phy=phy)))


def hang(state: HostState, phy: int | None, function: str | None) -> HostState:
    """Calls of `function` never return. Of one chip: its health unless another function is named. Of the whole
    driver (`phy` None): one function, or else every reading, the start of the library and both tools."""
    if phy is not None:
        state.device(phy)
        return _with_rule(state, function or "dcmi_get_device_health", DriverRule(hang=True, match=Match(phy=phy)))
    if function is not None:
        return _with_rule(state, function, DriverRule(hang=True))
    state = _with_rule(state, READINGS, DriverRule(hang=True))
    faults = replace(
        state.faults,
        init=replace(state.faults.init, hang=True),
        npu_smi={**state.faults.npu_smi, READINGS: ToolRule(hang=True)},
        hccn_tool={**state.faults.hccn_tool, READINGS: ToolRule(hang=True)},
    )
    return replace(state, faults=faults)


def clear(state: HostState, phy: int | None) -> HostState:
    """End `error` and `hang` of the chip, or with None every misbehaviour of the software."""
    if phy is None:
        kept = Faults(missing_symbols=state.faults.missing_symbols, init=replace(state.faults.init, ret=0, hang=False))
        return replace(state, faults=kept)
    state.device(phy)
    rules = {
        name: left for name in state.faults.dcmi if (left := [r for r in _rules(state, name) if r.match.phy != phy])
    }
    return replace(state, faults=replace(state.faults, dcmi={**rules}))


def heal(state: HostState, phy: int, now_ms: int) -> HostState:
    """The chip is as new: every code recovers, with its event, its rules end, and it is present and ready."""
    for code in state.device(phy).error_codes:
        state = recover(state, phy, code, now_ms)
    state = clear(state, phy)
    return _renumbered(_change(state, phy, _ready))


def drop(state: HostState, phy: int) -> HostState:
    """The chip falls off the bus. New processes do not find it and count the logic ids of the others anew."""
    return _renumbered(_change(state, phy, lambda d: replace(d, enumerated=False, alive=False)))


def back(state: HostState, phy: int) -> HostState:
    """The chip is on the bus again, booted and answering."""
    return _renumbered(_change(state, phy, _ready))


def link(state: HostState, phy: int, up: bool, now_s: int, speed_mbps: int = 200_000) -> HostState:
    """The RoCE link of the chip goes up or down, with its record in the link history.

    The driver's own code for it (81078603) is not raised: `occur` does that where a drill wants both.
    """

    def change(device: Device) -> Device:
        log = [*device.net.link_log, LinkChange(t=now_s, up=up)][-LINK_RECORDS:]
        net = replace(
            device.net,
            link="UP" if up else "DOWN",
            speed=speed_mbps if up else SPEED_DOWN,
            net_health=NET_SUCCESS if up else NET_FAULT,
            link_log=log,
        )
        return replace(device, net=net)

    return _change(state, phy, change)


def unreachable(state: HostState, phy: int | None, addresses: Sequence[str]) -> HostState:
    """From now on pings of the chip's port (None: of every port) to these addresses stay without a reply, and all
    others get one. `*` is every address, nothing given ends it."""
    phys = [device.phy for device in state.devices] if phy is None else [phy]
    for number in phys:
        state = _change(state, number, lambda d: replace(d, net=replace(d.net, unreachable=list(addresses))))
    return state


def hold(state: HostState, phy: int, pids: Sequence[int], aicore_pct: int) -> HostState:
    """From now on these processes hold the chip, and it computes so much; with none it is free."""
    procs = [Proc(pid=pid, mb=1024, name="python3") for pid in pids]
    return _change(state, phy, lambda d: replace(d, procs=procs, util=replace(d.util, aicore=aicore_pct)))


def events(state: HostState, enabled: bool) -> HostState:
    """Whether fault events can be subscribed to. Switching them off also ends running subscriptions, silently."""
    rules = {name: rule for name, rule in state.faults.dcmi.items() if name not in SUBSCRIPTIONS}
    if not enabled:
        rules.update({name: DriverRule(ret=NOT_SUPPORTED) for name in SUBSCRIPTIONS})
    return replace(state, faults=replace(state.faults, dcmi=rules))


def _ready(device: Device) -> Device:
    return replace(device, enumerated=True, alive=True, occupied=False, comm_lost=False, boot_status=16)


def _renumbered(state: HostState) -> HostState:
    logic = iter(range(len(state.devices)))
    devices = [replace(d, logic=next(logic)) if d.enumerated else d for d in state.devices]
    return replace(state, devices=devices)


def _change(state: HostState, phy: int, change: Callable[[Device], Device]) -> HostState:
    state.device(phy)
    return replace(state, devices=[change(d) if d.phy == phy else d for d in state.devices])


def _announce(state: HostState, phy: int, code: str, severity: int, assertion: int, raised_ms: int) -> HostState:
    event = Event(
        seq=max((e.seq for e in state.events), default=0) + 1,
        event_id=code,
        phy=phy,
        severity=severity,
        assertion=assertion,
        node_type=code_number(code) >> 17 & 0x7FF,  # bits 17 to 27 of an event id are the node type
        raised_ms=raised_ms,
    )
    return replace(state, events=[*state.events, event][-EVENTS_KEPT:])


def _rules(state: HostState, function: str) -> list[DriverRule]:
    rules = state.faults.dcmi.get(function, [])
    return rules if isinstance(rules, list) else [rules]


def _with_rule(state: HostState, function: str, rule: DriverRule) -> HostState:
    others = [other for other in _rules(state, function) if other.match != rule.match]
    return replace(state, faults=replace(state.faults, dcmi={**state.faults.dcmi, function: [rule, *others]}))


def _active(device: Device, now_ms: int) -> dict[str, Active]:
    """The codes of the chip with what is known of them. One that was written into the file by hand has the severity
    of the health that was written with it."""
    unknown = Active(severity=device.health, raised_ms=now_ms)
    return {_name(code): device.active.get(_name(code), unknown) for code in device.error_codes}


def _with_active(device: Device, active: dict[str, Active]) -> Device:
    health = max((known.severity for known in active.values()), default=0)
    return replace(device, error_codes=list(active), active=active, health=health)


def _name(code: str) -> str:
    return f"{code_number(code):08X}"


def _check_severity(severity: int) -> None:
    if not 0 <= severity <= 3:
        raise StateError(f"severity {severity} does not exist: 0 suggestion, 1 minor, 2 major, 3 critical")
