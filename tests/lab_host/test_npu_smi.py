"""npu-smi: texts and exit codes, including the ways in which the real one misleads."""

import re
import signal
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace

from console.lab.host import SimHost, npu_smi
from console.lab.host.chip import Proc
from console.lab.host.state import DriverRule, Faults, Host, HostState, InitRule, Match, ToolRule
from tests.lab_host.conftest import MakeHost

pytestmark = pytest.mark.slow

TIMEOUT_S = 30


def ask(host: SimHost, *arguments: str) -> tuple[str, int]:
    """Standard output and exit code."""
    output = npu_smi.run(list(arguments), host.state_path)
    return output.text, output.rc


def execute(host: SimHost, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same from the installed program, in an empty environment."""
    return subprocess.run(
        [str(host.npu_smi), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env={}
    )


def test_the_installed_program_answers_alike(host: SimHost) -> None:
    for arguments in (("info", "-l"), ("info", "-t", "health", "-i", "9")):
        done = execute(host, *arguments)
        assert (done.stdout, done.returncode) == ask(host, *arguments)
        assert done.stderr == ""
    assert execute(host, "-v").stdout == "npu-smi version: 25.5.1\n"


def alter(host: SimHost, phy: int, **values: Any) -> None:
    def change(state: HostState) -> HostState:
        return replace(state, devices=[replace(d, **values) if d.phy == phy else d for d in state.devices])

    host.change(change)


def with_rule(host: SimHost, function: str, ret: int, phy: int) -> None:
    rule = DriverRule(ret=ret, match=Match(phy=phy))
    host.change(lambda state: replace(state, faults=Faults(dcmi={function: rule})))


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of the chip table, after its two header rows."""
    table = text.split("Process id")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    return [row for row in cells[3:] if len(row) == 3]


def values(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\t(.*?) +: (.*)$", text, re.MULTILINE))


def test_the_overview_has_two_rows_for_each_chip(host: SimHost) -> None:
    alter(host, 5, procs=[Proc(pid=2290156, mb=56630, name="VLLMEngineCoreProcess")])
    text, rc = ask(host, "info")
    found = rows(text)[:16]
    assert rc == 0
    assert found[10] == ["5     910B3", "OK", "93.2        45                0    / 0"]
    assert found[11] == ["0", "0000:02:00.0", "0           0    / 0          3445 / 65536"]
    assert "| 5       0                 | 2290156       | VLLMEngineCoreP          | 56630" in text
    assert text.count("No running processes found in NPU") == 7
    assert len({len(line) for line in text.splitlines()}) == 1, "every line is as wide as the others"


@pytest.mark.parametrize(
    ("generation", "version", "width"),
    [
        ("910B", "24.1.rc2", 93),
        ("910B", "25.5.1", 98),
        ("910B", "26.0.rc1", 116),
        ("910B", "26.1.0", 99),
        ("A3", "26.0.rc1", 116),
        ("310P", "25.2.1", 106),
        ("950", "26.1.0", 99),
    ],
)
def test_the_width_depends_on_the_version(make_host: MakeHost, generation: str, version: str, width: int) -> None:
    host = make_host(generation, 4)
    host.change(lambda state: replace(state, npu_smi=version))
    text, _ = ask(host, "info")
    assert {len(line) for line in text.splitlines()} == {width}


def test_a_chip_with_a_fault_keeps_its_word_in_the_overview(host: SimHost) -> None:
    host.occur(2, "80E01801", severity=2)
    host.occur(3, "80E0020B", severity=3)
    text, _ = ask(host, "info")
    assert [row[1] for row in rows(text)[::2]] == ["OK", "OK", "Alarm", "Critical", "OK", "OK", "OK", "OK"]


@pytest.mark.parametrize(("ret", "word"), [(-8009, "OK"), (-8020, "UNKNOWN")])
def test_health_that_cannot_be_read(host: SimHost, ret: int, word: str) -> None:
    host.occur(3, "80E0020B")
    with_rule(host, "dcmi_get_device_health", ret, 3)
    assert rows(ask(host, "info")[0])[6][1] == word


def test_a_chip_that_is_not_ready_loses_its_first_row(host: SimHost) -> None:
    with_rule(host, "dcmi_get_device_health", -8012, 3)
    found = rows(ask(host, "info")[0])
    assert len(found) == 15
    assert found[6] == ["0", "0000:82:00.0", "0           0    / 0          3445 / 65536"]


def test_a_getter_that_fails_prints_zero(host: SimHost) -> None:
    for function in ("dcmi_get_device_hbm_info", "dcmi_get_device_power_info", "dcmi_get_device_temperature"):
        rule = DriverRule(ret=-8006, match=Match(phy=3))

        def change(state: HostState, function: str = function, rule: DriverRule = rule) -> HostState:
            return replace(state, faults=replace(state.faults, dcmi={**state.faults.dcmi, function: rule}))

        host.change(change)
    text, rc = ask(host, "info")
    assert rc == 0
    assert rows(text)[6][2] == "0.0         0                 0    / 0"
    assert rows(text)[7][2] == "0           0    / 0          0    / 0"


def test_the_warning_comes_last_and_not_in_containers(host: SimHost) -> None:
    host.change(lambda state: replace(state, host=Host(install_complete=False)))
    assert ask(host, "info")[0].splitlines()[-1].startswith("[WARNING]The driver package may not be")
    host.change(lambda state: replace(state, host=Host(install_complete=False, container=True)))
    assert "WARNING" not in ask(host, "info")[0]


def test_lists(host: SimHost) -> None:
    alter(host, 5, boot_status=0)
    host.drop(6)
    text, rc = ask(host, "info", "-l")
    assert rc == 0
    assert re.findall(r"NPU ID +: (-?\d+)\n\tChip Count +: (\d)", text)[:2] == [("-1", "0"), ("0", "1")]
    assert "Total Count                    : 7\n" in text
    lines = ask(host, "info", "-m")[0].splitlines()
    assert lines[0].split("  ")[0] == "\tNPU ID"
    assert [line.split() for line in lines[1:4]] == [
        ["-1", "0", "-", "Mcu"],
        ["0", "0", "0", "Ascend", "910B3"],
        ["0", "1", "-", "Mcu"],
    ]
    assert lines[-2].split() == ["7", "0", "6", "Ascend", "910B3"]


def test_health_of_a_card_and_of_a_chip(host: SimHost) -> None:
    host.occur(2, "80E01801", severity=2)
    host.occur(2, "80E18402", severity=2)
    text, rc = ask(host, "info", "-t", "health", "-i", "2")
    assert (values(text)["NPU ID"], rc) == ("2", 0)
    assert re.findall(r"Health +: (\w+)", text) == ["Alarm", "OK"], "the chip, then the MCU"
    text, rc = ask(host, "info", "-t", "health", "-i", "2", "-c", "0")
    assert (values(text)["Health Status"], values(text)["Error Code"]) == ("Alarm", "80E01801 80E18402")
    assert "\n\n\t                               : node type=0x70" in text, "the second text follows an empty line"


def test_only_the_chip_form_calls_a_bad_chip_without_codes_ok(host: SimHost) -> None:
    alter(host, 2, health=2)
    assert "Health                         : Alarm" in ask(host, "info", "-t", "health", "-i", "2")[0]
    assert values(ask(host, "info", "-t", "health", "-i", "2", "-c", "0")[0])["Health Status"] == "OK"


@pytest.mark.parametrize(
    ("function", "ret", "rc"),
    [
        ("dcmi_get_device_health", -8012, 204),
        ("dcmi_get_device_health", -8009, 207),
        ("dcmi_get_device_errorcode_v2", -8005, 211),
    ],
)
def test_health_of_a_chip_that_fails(host: SimHost, function: str, ret: int, rc: int) -> None:
    with_rule(host, function, ret, 3)
    assert ask(host, "info", "-t", "health", "-i", "3", "-c", "0") == ('Failed to query "health" result.\n', rc)


@pytest.mark.parametrize("subject", ["ecc", "power", "temp", "usages", "memory"])
def test_a_card_form_that_fails_ends_with_0(host: SimHost, subject: str) -> None:
    host.error(3, -8006)
    text, rc = ask(host, "info", "-t", subject, "-i", "3")
    assert rc == 0
    assert "Failed to query npu chip: 0 info.\n" in text


FIELDS = {
    "ecc": ("HBM Double Bit Error Count", "2"),
    "usages": ("Aicore Usage Rate(%)", "38"),
    "temp": ("NPU Temperature (C)", "61"),
    "power": ("NPU Real-time Power(W)", r"102\.8"),
    "memory": ("HBM Capacity(MB)", "65536"),
    "board": ("VDie ID", r"10000004 [0-9A-F]{8} 00000002 00000003 00000004"),
    "hccs": ("hccs health status", "OK"),
}


@pytest.mark.parametrize(("subject", "field"), FIELDS.items(), ids=FIELDS.keys())
def test_values_of_a_chip(host: SimHost, subject: str, field: tuple[str, str]) -> None:
    device = host.state().device(4)
    ecc = replace(device.ecc, hbm=(1, 0, 2, 0, 2, 0, 0, 0, 0))
    alter(host, 4, temp=61, power_dw=1028, ecc=ecc, util=replace(device.util, aicore=38))
    text, rc = ask(host, "info", "-i", "4", "-c", "0", "-t", subject)
    assert rc == 0
    assert re.fullmatch(field[1], values(text)[field[0]])


def test_values_of_a_card(host: SimHost) -> None:
    found = values(ask(host, "info", "-t", "common", "-i", "0")[0])
    assert (found["HBM Usage Rate(%)"], found["NPU Real-time Power(W)"], found["Chip Name"]) == ("5", "93.2", "mcu")
    assert values(ask(host, "info", "-t", "board", "-i", "5")[0])["PCIe Bus Info"] == "0000:02:00.0"


def test_super_pod_is_for_a3(make_host: MakeHost) -> None:
    host = make_host("A3", 4)
    assert values(ask(host, "info", "-t", "spod-info", "-i", "1", "-c", "1")[0])["SDID"] == str(0x01000003)


def test_950_names_chips_by_logic_id(make_host: MakeHost) -> None:
    host = make_host("950", 4)
    host.occur(3, "81AF8000", severity=2)
    text, rc = ask(host, "info", "-t", "health", "-i", "3")
    assert rc == 0
    assert {key: values(text)[key] for key in ("NPU ID", "Health", "Error Code")} == {
        "NPU ID": "3",
        "Health": "Alarm",
        "Error Code": "81AF8000",
    }


REFUSALS = {
    "no driver": (InitRule(ret=-8005), ("info",), "dcmi module initialize failed. ret is -8005\n", 187),
    "driver in use": (
        InitRule(ret=-8020),
        ("info", "-l"),
        "dcmi model initialized failed, because the device is used. ret is -8020\n",
        172,
    ),
    "bad card": (InitRule(), ("info", "-t", "board", "-i", "9"), "Invalid card id.\nError parameter of -i\n", 215),
    "bad chip": (InitRule(), ("info", "-t", "health", "-i", "0", "-c", "3"), "Invalid chip id.\n", 215),
    "bad type": (InitRule(), ("info", "-t", "nosuch", "-i", "0"), "Error parameter of -t\n", 215),
    "unsupported": (InitRule(), ("info", "-t", "spod-info", "-i", "0"), "This device does not support querying", 0),
    "nothing": (InitRule(), (), "Usage: npu-smi", 215),
}


@pytest.mark.parametrize(("init", "arguments", "text", "rc"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_go_to_standard_output(
    host: SimHost, init: InitRule, arguments: tuple[str, ...], text: str, rc: int
) -> None:
    host.change(lambda state: replace(state, faults=Faults(init=init)))
    said, code = ask(host, *arguments)
    assert said.startswith(text)
    assert code == rc


def test_a_rule_replaces_the_answer_as_often_as_it_says(host: SimHost) -> None:
    rule = ToolRule(stdout="Killed\n", rc=137, times=2)
    host.change(lambda state: replace(state, faults=Faults(npu_smi={"l": rule})))
    assert [ask(host, "info", "-l")[1] for _ in range(3)] == [137, 137, 0]
    assert host.state().faults.npu_smi["l"] == [replace(rule, times=0)]


def test_a_hung_chip_hangs_the_tool_against_signals(host: SimHost) -> None:
    host.hang(3)
    running = subprocess.Popen([str(host.npu_smi), "info"], stdout=subprocess.PIPE)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=2)
        running.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=0.5)
        host.clear(3)
        running.wait(timeout=TIMEOUT_S)
    finally:
        running.kill()
        running.communicate()


def test_an_unreadable_state_file_is_named(host: SimHost) -> None:
    host.state_path.write_text(host.state_path.read_text()[:500])
    done = execute(host, "info")
    assert (done.stdout, done.returncode) == ("dcmi module initialize failed. ret is -8005\n", 187)
    assert f"bad state file {host.state_path}" in done.stderr
