"""libdcmi.so as a process meets it: sizes, ids, and the return codes that must be looked at before the values."""

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from console.lab.host import SimHost, build
from console.lab.host.chip import Net, Proc
from console.lab.host.state import HostState
from tests.lab_host.child import out
from tests.lab_host.conftest import MakeChild, MakeHost

pytestmark = pytest.mark.slow

OK, PARAMETER, INNER, INVALID_ID = 0, -8001, -8005, -8007
NOT_READY, OCCUPIED, NO_ADDRESS, NOT_SUPPORTED = -8012, -8020, -8023, -8255
ABSENT = 0xFFFFFFFF


def alter(host: SimHost, phy: int, **values: Any) -> None:
    """Change fields of a chip, as an editor of the file would."""

    def change(state: HostState) -> HostState:
        return replace(state, devices=[replace(d, **values) if d.phy == phy else d for d in state.devices])

    host.change(change)


SIZES = {
    "dcmi_get_device_chip_info": ((), 100),
    "dcmi_get_device_chip_info_v2": ((), 132),
    "dcmi_get_device_pcie_info_v2": ((), 64),
    "dcmi_get_device_board_info": ((), 16),
    "dcmi_get_device_ecc_info": ((2,), 28),
    "dcmi_get_device_hbm_info": ((), 32),
    "dcmi_get_device_temperature": ((), 4),
    "dcmi_get_device_power_info": ((), 4),
    "dcmi_get_device_network_health": ((), 4),
    "dcmi_get_device_die_v2": ((1,), 20),
    "dcmi_get_device_utilization_rate": ((2,), 4),
}


@pytest.mark.parametrize(("function", "kind", "size"), [(name, *rest) for name, rest in SIZES.items()])
def test_a_reading_writes_as_many_bytes_as_the_driver_does(
    host: SimHost, start: MakeChild, function: str, kind: tuple[int, ...], size: int
) -> None:
    result = start(host).init().call(function, 0, 0, *kind, out(400))
    assert (result.ret, result.written()) == (OK, size)


def test_values_stand_where_the_header_puts_them(host: SimHost, start: MakeChild) -> None:
    alter(host, 2, procs=[Proc(pid=4711, mb=56630, name="python")], temp=61)
    child = start(host).init()
    assert struct.unpack_from("<QI4xQi", child.call("dcmi_get_device_hbm_info", 2, 0, out(64)).outs[0]) == (
        (65536, 1600, 3445, 52)
    )
    pcie = struct.unpack_from("<IIIIiIII", child.call("dcmi_get_device_pcie_info_v2", 2, 0, out(64)).outs[0])
    assert pcie == (0x19E5, 0x0200, 0xD802, 0x0100, 0, 0x81, 0, 0)
    ip = child.call("dcmi_get_device_ip", 2, 0, 1, 0, out(20), out(20))
    assert (ip.outs[0][:4], ip.outs[1][:4]) == (bytes([10, 20, 165, 22]), bytes([255, 255, 255, 0]))
    processes = child.call("dcmi_get_device_resource_info", 2, 0, out(16 * 64), out())
    assert processes.u32(1) == 1
    assert struct.unpack_from("<i4xQ", processes.outs[0]) == (4711, 56630 << 20)
    assert child.call("dcmi_get_device_temperature", 2, 0, out()).u32() == 61
    assert child.call("dcmi_get_driver_version", out(64), 64).outs[0].startswith(b"25.5.1\0")


def test_before_init_nothing_is_known(host: SimHost, start: MakeChild) -> None:
    child = start(host)
    assert child.call("dcmi_get_card_list", out(), out(256), 64).ret == INNER
    assert child.health(0)[0] == NOT_SUPPORTED
    assert child.call("dcmi_get_driver_health", out()).ret == OK


def test_ids_of_a_card(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert child.cards() == list(range(8))
    units = child.call("dcmi_get_device_id_in_card", 5, out(), out(), out())
    assert [units.i32s(1, i)[0] for i in range(3)] == [1, 1, -1]
    assert [child.call("dcmi_get_device_type", 5, unit, out()).u32() for unit in (0, 1)] == [0, 1]
    assert child.call("dcmi_get_device_type", 5, 2, out()).ret == PARAMETER
    assert child.call("dcmi_get_device_logic_id", out(), 5, 0).u32() == 5
    assert child.call("dcmi_get_device_logic_id", out(), 5, 1).ret == NOT_SUPPORTED
    assert child.call("dcmi_get_device_phyid_from_logicid", 8, out()).ret == INVALID_ID
    assert child.call("dcmi_get_card_id_device_id_from_phyid", out(), out(), 5).u32() == 5
    assert child.call("dcmi_get_card_list", out(), out(256), 4).ret == PARAMETER
    assert child.call("dcmi_get_device_num_in_card", 8, out()).ret == PARAMETER


def test_two_dies_share_a_card(make_host: MakeHost, start: MakeChild) -> None:
    child = start(make_host("A3", 16)).init()
    assert child.cards() == list(range(8))
    assert child.call("dcmi_get_device_logic_id", out(), 3, 1).u32() == 7
    spod = child.call("dcmi_get_device_info", 3, 1, 12, 1, out(64), {"size": 64})
    assert (spod.ret, spod.u32()) == (OK, 0x01000007)


CONDITIONS: dict[str, tuple[dict[str, Any], tuple[int, int], int, tuple[int, int]]] = {
    # what is changed, health, return code of the code list, boot status
    "healthy": ({}, (OK, 0), OK, (OK, 16)),
    "critical": ({"health": 3}, (OK, 3), OK, (OK, 16)),
    "does not answer": ({"alive": False}, (OK, ABSENT), INNER, (PARAMETER, 0)),
    "off the bus": ({"enumerated": False}, (OK, ABSENT), INNER, (PARAMETER, 0)),
    "booting": ({"boot_status": 2}, (NOT_READY, ABSENT), OK, (OK, 0)),
    "nearly booted": ({"boot_status": 3}, (NOT_READY, ABSENT), OK, (OK, 3)),
    "heartbeat lost": ({"comm_lost": True}, (OK, 3), OK, (OK, 16)),
    "occupied": ({"occupied": True}, (OCCUPIED, 4), INNER, (OCCUPIED, 0)),
}


@pytest.mark.parametrize(("values", "health", "codes", "boot"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_what_a_running_process_sees_of_a_chip(
    host: SimHost,
    start: MakeChild,
    values: dict[str, Any],
    health: tuple[int, int],
    codes: int,
    boot: tuple[int, int],
) -> None:
    child = start(host).init()
    alter(host, 5, **values)
    status = child.call("dcmi_get_device_boot_status", 5, 0, out())
    assert child.health(5) == health
    assert child.codes(5)[0] == codes
    assert (status.ret, status.u32()) == boot
    assert child.health(4) == (OK, 0), "the other chips are as before"


def test_a_dropped_chip_vanishes_from_new_processes_only(host: SimHost, start: MakeChild) -> None:
    before = start(host).init()
    host.drop(5)
    after = start(host).init()
    assert before.cards() == list(range(8))
    assert before.health(5) == (OK, ABSENT)
    assert after.cards() == [0, 1, 2, 3, 4, 6, 7]
    assert after.health(5)[0] == PARAMETER
    assert after.call("dcmi_get_device_logic_id", out(), 7, 0).u32() == 6, "logic ids are counted anew"
    assert before.call("dcmi_get_device_logic_id", out(), 7, 0).u32() == 7
    host.back(5)
    assert before.health(5) == (OK, 0)
    assert after.cards() == [0, 1, 2, 3, 4, 6, 7], "enumerated once and for all"
    assert start(host).init().cards() == list(range(8))


def test_a_chip_that_cannot_be_set_up_leaves_a_minus_one(make_host: MakeHost, start: MakeChild) -> None:
    host = make_host("A3", 8)
    host.drop(5)
    assert start(host).init().cards() == [-1, 0, 1, 3], "one die missing takes the card"
    host.drop(4)
    assert start(host).init().cards() == [0, 1, 3]
    alter(host, 0, boot_status=0)
    assert start(host).init().cards() == [-1, 1, 3]


def test_without_a_usable_chip_the_start_fails(make_host: MakeHost, start: MakeChild) -> None:
    host = make_host("910B", 2)
    for phy in (0, 1):
        alter(host, phy, boot_status=0)
    assert start(host).call("dcmi_init").ret == INNER
    for phy in (0, 1):
        alter(host, phy, boot_status=16, occupied=True)
    assert start(host).call("dcmi_init").ret == OCCUPIED


@pytest.mark.parametrize(
    ("active", "room", "ret"), [(0, 1, OK), (3, 3, OK), (3, 2, PARAMETER), (128, 128, OK), (129, 128, INNER)]
)
def test_error_code_list(host: SimHost, start: MakeChild, active: int, room: int, ret: int) -> None:
    codes = [f"{0x80E01801 + i:08X}" for i in range(active)]
    alter(host, 0, error_codes=codes)
    assert start(host).init().codes(0, room=room) == (ret, codes if ret == OK else [])


def test_text_of_an_unknown_code_needs_48_bytes(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    result = child.call("dcmi_get_device_errorcode_string", 0, 0, 0x80E01801, out(64), 48)
    assert result.outs[0].split(b"\0")[0] == b"node type=0x70, sensor type=0xc, event=1"
    assert child.call("dcmi_get_device_errorcode_string", 0, 0, 0x80E01801, out(64), 47).ret == PARAMETER


UNSUPPORTED = {
    "DDR ECC": ("dcmi_get_device_ecc_info", 0, 0, 0, out(64)),
    "DDR": ("dcmi_get_device_memory_info_v3", 0, 0, out(128)),
    "NDie": ("dcmi_get_device_die_v2", 0, 0, 0, out(32)),
    "super pod": ("dcmi_get_device_info", 0, 0, 12, 1, out(64), {"size": 64}),
    "power of the MCU": ("dcmi_get_device_power_info", 0, 1, out()),
}


@pytest.mark.parametrize("request_", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_unsupported_on_910b(host: SimHost, start: MakeChild, request_: tuple[Any, ...]) -> None:
    assert start(host).init().call(*request_).ret == NOT_SUPPORTED


def test_a_chip_without_an_address(host: SimHost, start: MakeChild) -> None:
    alter(host, 0, net=Net())
    assert start(host).init().call("dcmi_get_device_ip", 0, 0, 1, 0, out(20), out(20)).ret == NO_ADDRESS


def test_the_interface_of_the_950_is_another_one(make_host: MakeHost, start: MakeChild) -> None:
    host = make_host("950", 4)
    host.occur(2, "81AF8000", severity=2)
    child = start(host)
    assert child.call("dcmi_init").ret == NOT_SUPPORTED
    assert child.call("dcmiv2_init").ret == OK
    listed = child.call("dcmiv2_get_device_list", out(256), out(), 64)
    assert listed.i32s(listed.u32(1)) == [0, 1, 2, 3]
    assert child.call("dcmiv2_get_device_health", 2, out()).u32() == 2
    codes = child.call("dcmiv2_get_device_error_code_list", 2, out(), out(512), 128)
    assert (codes.u32(0), codes.u32(1)) == (1, 0x81AF8000)
    assert child.call("dcmiv2_get_chip_phy_id_by_dev_id", 2, out()).u32() == 2
    assert child.call("dcmiv2_get_driver_version", out(64), 64).outs[0].startswith(b"26.1.0\0")
    assert child.health(2)[0] == NOT_SUPPORTED


def test_starting_the_wrong_interface_wipes_the_card_list(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    assert child.call("dcmiv2_init").ret == NOT_SUPPORTED
    assert child.cards() == []
    assert child.init().cards() == list(range(8))


def test_without_environment_it_finds_the_state_beside_itself(host: SimHost, start: MakeChild) -> None:
    child = start(host, dict.fromkeys(host.env(), ""))
    assert "NPU_SIM_STATE" not in os.environ
    assert child.init().cards() == list(range(8))


def test_an_older_driver_lacks_functions(host: SimHost, start: MakeChild) -> None:
    assert start(host).ask({"has": "dcmi_get_device_die_v2"})
    host.missing_symbols(["dcmi_get_device_die_v2"])
    older = start(host)
    assert not older.ask({"has": "dcmi_get_device_die_v2"})
    assert older.init().health(0) == (OK, 0)


def test_the_state_file_may_be_edited_by_hand(host: SimHost, start: MakeChild) -> None:
    child = start(host).init()
    text = host.state_path.read_text()
    assert '"temp": 45' in text
    host.state_path.write_text(text.replace('"temp": 45', '"temp": 99', 1))
    assert child.call("dcmi_get_device_temperature", 0, 0, out()).u32() == 99


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda text: text[: len(text) // 2], "at byte"),
        (lambda text: text.replace('"phy": 3', '"phy": "three"'), "devices[3].phy: expected a number"),
        (lambda text: text.replace('"error_codes": []', '"error_codes": ["xyz"]', 1), "devices[0].error_codes"),
        (lambda text: text.replace('"generation": "910B"', '"generation": "999"'), "generation: expected"),
    ],
)
def test_a_broken_edit_leaves_the_old_state_in_force(host: SimHost, start: MakeChild, broken: Any, reason: str) -> None:
    host.occur(3, "80E01801")
    child = start(host).init()
    assert child.health(3) == (OK, 3)
    host.state_path.write_text(broken(host.state_path.read_text()))
    assert child.health(3) == (OK, 3)
    assert child.codes(3) == (OK, ["80E01801"])
    said = child.stderr()
    assert str(host.state_path) in said
    assert reason in said
    assert "the state before it stays in force" in said
    assert said.count("cannot use") == 1, "said once, not at every call"


def test_the_sources_compile_without_a_warning(tmp_path: Path, host_library: None) -> None:
    compiler = next(filter(None, map(shutil.which, build.COMPILERS)))
    sources = [str(source) for source in build.SOURCES.glob("*.c")]
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fPIC", "-c", *sources]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_process_without_a_state_file_says_so(host: SimHost, start: MakeChild) -> None:
    child = start(host)
    host.state_path.write_text("{")
    assert child.call("dcmi_init").ret == INNER
    assert "there is no state to fall back to" in child.stderr()
