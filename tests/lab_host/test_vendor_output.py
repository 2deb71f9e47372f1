"""The stand-ins against output of the real tools, captured in known states; skipped where the captures are not."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from console.lab.host import defaults, hccn_tool, npu_smi
from console.lab.host.chip import Ecc, Proc, Util
from console.lab.host.state import DriverRule, Faults, Host, HostState, InitRule, Match, save

VERSION = "26.1.0.b061"
BUSES_A3 = (0xC1, 0xC2, 0x81, 0x82, 0x01, 0x02, 0x41, 0x42)
NOT_INSTALLED = Host(install_complete=False)

Change = Callable[[HostState], HostState]


def captured_910b() -> HostState:
    """The eight 910B the captures were made on: the first one at work."""
    state = defaults.healthy("910B", 8, 1_700_000_000)
    devices = [replace(d, ecc=Ecc(hbm=(1, 1, 0, 1, 0, 0, 0, 0, 0)), util=Util(ctrlcpu=0)) for d in state.devices]
    devices[0] = replace(
        devices[0],
        ecc=Ecc(hbm=(1, 3, 0, 10, 0, 0, 0, 0, 0)),
        util=Util(aicore=38, hbm=91, ctrlcpu=0),
        hbm=replace(devices[0].hbm, used=60156),
        procs=[Proc(pid=40001, mb=56630)],
    )
    return replace(state, npu_smi=VERSION, driver=VERSION, devices=devices, host=NOT_INSTALLED)


def captured_a3() -> HostState:
    state = defaults.healthy("A3", 16, 1_700_000_000)
    devices = [replace(d, pci=replace(d.pci, bus=BUSES_A3[d.phy % 8])) for d in state.devices]
    return replace(state, npu_smi=VERSION, driver=VERSION, devices=devices, host=NOT_INSTALLED)


def chip(phy: int, **values: Any) -> Change:
    return lambda state: replace(state, devices=[replace(d, **values) if d.phy == phy else d for d in state.devices])


def every(**values: Any) -> Change:
    return lambda state: replace(state, devices=[replace(d, **values) for d in state.devices])


def port(**values: Any) -> Change:
    def change(state: HostState) -> HostState:
        first, *others = state.devices
        return replace(state, devices=[replace(first, net=replace(first.net, **values)), *others])

    return change


def failing(function: str, ret: int) -> Change:
    faults = Faults(dcmi={function: DriverRule(ret=ret, match=Match(phy=3))})
    return lambda state: replace(state, faults=faults)


def as_it_is(state: HostState) -> HostState:
    return state


def contained(state: HostState) -> HostState:
    return replace(state, host=replace(state.host, container=True))


def no_driver(state: HostState) -> HostState:
    return replace(state, faults=Faults(init=InitRule(ret=-8005)))


CAPTURES_910B: dict[str, Change] = {
    "npu-smi-info-in-container-healthy": contained,
    "npu-smi-info-booting5": chip(5, boot_status=0),
    "npu-smi-info-l-healthy": as_it_is,
    "npu-smi-info-m-healthy": as_it_is,
    "npu-smi-info-m-booting5": chip(5, boot_status=0),
    "npu-smi-info-m-occupied_chip2": chip(2, occupied=True),
    "npu-smi-info-boot3_after_init": failing("dcmi_get_device_health", -8012),
    "npu-smi-info-health3_fails_after_init": failing("dcmi_get_device_health", -8009),
    "npu-smi-info-nodriver": no_driver,
    "npu-smi-info-all_booting": every(boot_status=0),
    "npu-smi-info-occupied_each": every(occupied=True),
    "npu-smi-t_health-i0-c0-healthy": as_it_is,
    "npu-smi-t_health-i2-healthy": as_it_is,
    "npu-smi-t_health-i2-alarm_nocodes": chip(2, health=2),
    "npu-smi-t_health-i3-boot3_after_init": failing("dcmi_get_device_health", -8012),
    "npu-smi-t_health-i3-c0-codes3_fail": failing("dcmi_get_device_errorcode_v2", -8005),
    "npu-smi-mcu-chip-health-healthy": as_it_is,
    "npu-smi-t_ecc-i0-healthy": as_it_is,
    "npu-smi-t_ecc-i0-c0-healthy": as_it_is,
    "npu-smi-t_ecc-i3-ecc3_fails": failing("dcmi_get_device_ecc_info", -8005),
    "npu-smi-t_power-i0-c0-healthy": as_it_is,
    "npu-smi-t_power-i3-card3_getters_fail": failing("*", -8005),
    "npu-smi-t_temp-i0-healthy": as_it_is,
    "npu-smi-t_temp-i3-card3_getters_fail": failing("*", -8005),
    "npu-smi-t_usages-i3-card3_getters_fail": failing("*", -8005),
    "npu-smi-t_memory-i0-healthy": as_it_is,
    "npu-smi-t_memory-i0-c0-healthy": as_it_is,
    "npu-smi-t_common-i0-healthy": as_it_is,
    "npu-smi-t_proc-mem-i0-healthy": as_it_is,
    "npu-smi-t_proc-mem-i0-c0-healthy": as_it_is,
    "npu-smi-t_hccs-i0-c0-healthy": as_it_is,
    "npu-smi-t_spod-info-i0-healthy": as_it_is,
    "npu-smi-version-healthy": as_it_is,
    "hccn_tool-link-link_down": port(link="DOWN"),
    "hccn_tool-link-dev_lost": chip(0, alive=False),
    "hccn_tool-link-dev_missing": chip(0, enumerated=False),
    "hccn_tool-net_health-net1": port(net_health=1),
    "hccn_tool-net_health-net6": port(net_health=6),
    "hccn_tool-net_health-net9": port(net_health=9),
    "hccn_tool-speed-healthy": as_it_is,
    "hccn_tool-speed-link_down": port(link="DOWN", speed=-1),
    "hccn_tool-speed-speed_ffff": port(speed=0xFFFF),
    "hccn_tool-stat-healthy": as_it_is,
    "hccn_tool-ip-healthy": as_it_is,
    "hccn_tool-ip-noip": port(ip=None),
    "hccn_tool-gateway-healthy": as_it_is,
    "hccn_tool-badcmd-healthy": as_it_is,
    "hccn_tool-badid-healthy": as_it_is,
}
CAPTURES_A3: dict[str, Change] = {
    "npu-smi-info-A3_healthy": as_it_is,
    "npu-smi-info-m-A3_healthy": as_it_is,
    "npu-smi-info-l-A3_die5_missing": chip(5, enumerated=False),
    "npu-smi-info-m-A3_die5_booting": chip(5, boot_status=0),
    "npu-smi-t_health-i2-A3_chip5_alarm": chip(5, health=2),
}
CASES = [(name, captured_910b, change) for name, change in CAPTURES_910B.items()]
CASES += [(name, captured_a3, change) for name, change in CAPTURES_A3.items()]


@pytest.mark.parametrize(("name", "machine", "change"), CASES, ids=[case[0] for case in CASES])
def test_same_text_and_exit_code(
    name: str, machine: Callable[[], HostState], change: Change, tmp_path: Path, shared_dir: Path
) -> None:
    heading, _, body = (shared_dir / "facts" / "samples-vendor" / f"{name}.txt").read_text().partition("\n")
    told = re.search(r"command: (\S+) (.*?); exit code (\d+)", heading)
    assert told, heading
    stdout, _, stderr = body.partition("# --- stderr:\n")
    path = tmp_path / "state.json"
    save(path, change(machine()))
    arguments = told[2].split()
    if told[1] == "npu-smi":
        seen = npu_smi.run(arguments, path)
        assert (seen.text.rstrip("\n"), seen.rc) == (stdout.rstrip("\n"), int(told[3]))
    else:
        said = hccn_tool.run(arguments, path)
        assert (said.stdout, said.stderr, said.rc) == (stdout, stderr, int(told[3]))
