"""hccn_tool: what it says of a link, and its two streams of errors."""

import os
import re
import subprocess
import time
from typing import Any

import pytest
from msgspec.structs import replace

from console.lab.host import SimHost, hccn_tool
from console.lab.host.chip import LinkChange, Optical
from console.lab.host.state import Faults, HostState, Match, ToolRule
from tests.lab_host.conftest import MakeHost

pytestmark = pytest.mark.slow

TIMEOUT_S = 30


def ask(host: SimHost, *arguments: str) -> tuple[str, str, int]:
    """Standard output, standard error, exit code."""
    output = hccn_tool.run(list(arguments), host.state_path)
    return output.stdout, output.stderr, output.rc


def execute(host: SimHost, *arguments: str, **env: str) -> tuple[str, str, int]:
    """The same from the installed program, in an empty environment."""
    done = subprocess.run(
        [str(host.hccn_tool), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=env
    )
    return done.stdout, done.stderr, done.returncode


def test_the_installed_program_answers_alike(host: SimHost) -> None:
    for arguments in (("-i", "3", "-net_health", "-g"), ("-i", "99", "-link", "-g")):
        assert execute(host, *arguments) == ask(host, *arguments)


def get(host: SimHost, phy: int, command: str) -> str:
    stdout, stderr, rc = ask(host, "-i", str(phy), f"-{command}", "-g")
    assert (stderr, rc) == ("", 0)
    return stdout


def alter_net(host: SimHost, phy: int, **values: Any) -> None:
    def change(state: HostState) -> HostState:
        return replace(
            state,
            devices=[replace(d, net=replace(d.net, **values)) if d.phy == phy else d for d in state.devices],
        )

    host.change(change)


def test_a_healthy_port(host: SimHost) -> None:
    assert get(host, 3, "link") == "link status: UP\n"
    assert get(host, 3, "net_health") == "net health status: Success\n"
    assert get(host, 3, "speed") == "Speed: 200000 Mb/s\n"
    assert get(host, 3, "fec") == "fec mode: rs FEC mode\n"
    assert get(host, 3, "ip") == "ipaddr:10.20.165.23\nnetmask:255.255.255.0\n"
    assert get(host, 3, "gateway") == "default gateway:10.20.165.1, Iface:eth3\n"
    assert get(host, 3, "lldp").splitlines() == ["Port ID TLV", "\tIfname: 400GE1/1/4:1", "System Name TLV", "\tLEAF-1"]


def test_a_link_that_goes_down_and_comes_back(host: SimHost) -> None:
    host.link(3, up=False)
    assert get(host, 3, "link") == "link status: DOWN\n"
    assert get(host, 3, "speed") == "Speed: -1 Mb/s\n"
    assert get(host, 3, "net_health") == "net health status: Fault\n"
    host.link(3, up=True)
    lines = get(host, 3, "link_stat").splitlines()
    assert lines[1:4] == [
        "[devid 3]link up count       : 2",
        "[devid 3]link down count     : 1",
        "[devid 3]link change records :",
    ]
    assert [line.rsplit("    ", 1)[1] for line in lines[4:]] == ["LINK UP", "LINK DOWN", "LINK UP"], "newest first"
    assert get(host, 3, "link") == "link status: UP\n"
    assert get(host, 4, "link_stat").count("LINK DOWN") == 0


def test_link_history_is_in_local_time_and_has_ten_records(host: SimHost) -> None:
    alter_net(host, 0, link_log=[LinkChange(t=1_700_000_000 + 60 * i, up=bool(i % 2)) for i in range(14)])
    stdout, _, _ = execute(host, "-i", "0", "-link_stat", "-g", TZ="UTC-8")
    records = stdout.splitlines()[4:]
    assert len(records) == 10
    assert records[0] == "[devid 0]    Wed Nov 15 06:26:20 2023    LINK UP"


def test_older_machines_do_not_count_downs(make_host: MakeHost) -> None:
    assert "link down count" not in get(make_host("910A", 2), 0, "link_stat")


def test_counters(host: SimHost) -> None:
    alter_net(host, 0, stat={"mac_rx_fcs_err_pkt_num": 7, "new_counter": 1})
    lines = get(host, 0, "stat").splitlines()
    assert lines[0] == "packet statistics:"
    assert all(re.fullmatch(r"\w+:\d+", line) for line in lines[1:])
    assert "mac_rx_fcs_err_pkt_num:7" in lines
    assert "new_counter:1" in lines
    assert len(lines) == 50


def optical(host: SimHost, phy: int) -> dict[str, str]:
    lines = get(host, phy, "optical").splitlines()
    assert lines[0] == "optical info:"
    return {key.strip(): value for key, value in (line.split(": ", 1) for line in lines[1:])}


def test_optical_module(host: SimHost) -> None:
    alter_net(host, 0, optical=Optical(rx=(1.0, 1.0, 0.0501, 1.0)))
    found = optical(host, 0)
    assert (found["present"], found["temperature"], found["Rx Power2"]) == ("present", "47 C", "0.0501 mW")
    assert found["RxPower Low Thres"] == "0.1445 mW"


def test_flags_of_the_module_are_cleared_by_reading_them(host: SimHost) -> None:
    alter_net(host, 0, optical=Optical(los=(0, 4)))
    assert [optical(host, 0)["Rx Los Flag"] for _ in range(2)] == ["0x4", "0x0"]


def test_an_absent_module_still_has_vendor_lines(host: SimHost) -> None:
    alter_net(host, 0, optical=Optical(present=False))
    found = optical(host, 0)
    assert (found["present"], found["Tx Power"], found["vendor name"]) == ("not present", "NA", "LAB")


ERRORS = {
    "bad id": (("-i", "99", "-link", "-g"), "Get invalid device id.\n", 4),
    "bad command": (("-i", "0", "-foo", "-g"), "Get invalid major cmd.", 3),
    "no -g": (("-i", "0", "-link"), "The total count of input parameters is wrong!\n", 4),
    "no address": (("-i", "1", "-ip", "-g"), "Get ipconf failed, because no ip was preset there!\n", 13),
    "lost": (("-i", "2", "-link", "-g"), "Get invalid device id.\n", 4),
}


@pytest.mark.parametrize(("arguments", "stderr", "rc"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(host: SimHost, arguments: tuple[str, ...], stderr: str, rc: int) -> None:
    alter_net(host, 1, ip=None)
    host.drop(2)
    stdout, said, code = ask(host, *arguments)
    assert (stdout, code) == ("", rc)
    assert said.startswith(stderr)


def test_a_chip_that_does_not_answer_still_has_a_port(host: SimHost) -> None:
    def silence(state: HostState) -> HostState:
        return replace(state, devices=[replace(d, alive=False) for d in state.devices])

    host.change(silence)
    assert get(host, 0, "link") == "link status: UP\n"


def test_rules_for_one_port(host: SimHost) -> None:
    busy = ToolRule(stdout="hccn_tool is busy, please try again.\n", rc=11, times=1, match=Match(phy=3))
    host.change(lambda state: replace(state, faults=Faults(hccn_tool={"optical": busy})))
    assert ask(host, "-i", "2", "-optical", "-g")[2] == 0
    assert ask(host, "-i", "3", "-optical", "-g") == ("hccn_tool is busy, please try again.\n", "", 11)
    assert ask(host, "-i", "3", "-optical", "-g")[2] == 0


def test_a_slow_port(host: SimHost) -> None:
    host.change(lambda state: replace(state, faults=Faults(hccn_tool={"*": ToolRule(delay_ms=400)})))
    began = time.monotonic()
    assert get(host, 0, "link") == "link status: UP\n"
    assert time.monotonic() - began >= 0.4


def test_a_hung_driver_hangs_it(host: SimHost) -> None:
    host.hang(None)
    running = subprocess.Popen([str(host.hccn_tool), "-i", "0", "-link", "-g"], stdout=subprocess.PIPE, env=os.environ)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=1)
        host.clear(None)
        assert running.wait(timeout=TIMEOUT_S) == 0
    finally:
        running.kill()
        running.communicate()


def test_a_chip_that_is_not_ready_keeps_it_waiting(host: SimHost) -> None:
    def boot(state: HostState) -> HostState:
        return replace(state, devices=[replace(d, boot_status=3) for d in state.devices])

    host.change(boot)
    running = subprocess.Popen([str(host.hccn_tool), "-i", "0", "-link", "-g"], stdout=subprocess.PIPE)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=2)
    finally:
        running.kill()
        running.communicate()


def test_the_950_has_its_own_order_and_tables(make_host: MakeHost) -> None:
    host = make_host("950", 2)
    port = ("-i", "1", "-u", "0", "-p", "4")
    assert ask(host, "-g", "-link", *port) == ("link status: UP\n", "", 0)
    assert "| 1   | 0    | 4    | 200 G   |" in ask(host, "-g", "-speed", *port)[0]
    assert ask(host, "-g", "-link_stat", *port)[0].startswith("link up count :    1\nlink down count :  0\n+-----+")


def ping(host: SimHost, phy: int, address: str) -> tuple[str, str, int]:
    return ask(host, "-i", str(phy), "-ping", "-g", "address", address)


def summary(host: SimHost, phy: int, address: str = "192.0.2.7") -> str:
    return ping(host, phy, address)[0].splitlines()[-1]


REPLIED = "3 packets transmitted, 3 received, 0.00% packet loss"
LOST = "3 packets transmitted, 0 received, 100.00% packet loss"


def test_a_ping_is_answered_unless_the_address_is_unreachable_or_the_link_down(host: SimHost) -> None:
    text, stderr, rc = ping(host, 3, "192.0.2.7")
    assert (text.splitlines()[0], stderr, rc) == ("device 3 PING 192.0.2.7", "", 0)
    assert summary(host, 3) == REPLIED
    host.unreachable(3, "192.0.2.7")
    assert (summary(host, 3), summary(host, 3, "192.0.2.8"), summary(host, 4)) == (LOST, REPLIED, REPLIED)
    host.unreachable(None, "*")
    assert (summary(host, 3, "192.0.2.8"), summary(host, 4)) == (LOST, LOST)
    host.unreachable(None)
    host.link(3, up=False)
    assert (summary(host, 3), summary(host, 4)) == (LOST, REPLIED)


def test_a_ping_needs_two_addresses(host: SimHost) -> None:
    assert ping(host, 3, "nobody")[2] != 0
    alter_net(host, 3, ip=None)
    assert ping(host, 3, "192.0.2.7") == ("", "Get ipconf failed, because no ip was preset there!\n", 13)
