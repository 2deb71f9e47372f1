"""The host as a whole: its files, its transitions, and its command line."""

import json
import os
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from console.lab.host import SimHost, StateError, defaults, inject
from console.lab.host.cli import lab_host
from console.lab.host.state import EVENTS_KEPT, HostState, load, save
from tests.lab_host.conftest import MakeHost

CODES = ("80E01801", "80E18402", "81078603")


def worst(state: HostState, phy: int) -> int:
    device = state.device(phy)
    return max((device.active[code].severity for code in device.error_codes), default=0)


steps = st.lists(
    st.tuples(
        st.sampled_from(["occur", "recover", "drop", "back", "heal"]),
        st.integers(0, 3),
        st.sampled_from(CODES),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(steps)
def test_whatever_happens_the_state_stays_consistent(happenings: list[tuple[str, int, str, int]]) -> None:
    state = defaults.healthy("910B", 4, 0)
    for now_ms, (what, phy, code, severity) in enumerate(happenings):
        if what == "occur":
            state = inject.occur(state, phy, code, severity, now_ms)
        elif what == "recover" and code in state.device(phy).error_codes:
            state = inject.recover(state, phy, code, now_ms)
        elif what == "drop":
            state = inject.drop(state, phy)
        elif what == "back":
            state = inject.back(state, phy)
        elif what == "heal":
            state = inject.heal(state, phy, now_ms)
            assert state.device(phy).error_codes == []
            assert state.device(phy).present
    seqs = [event.seq for event in state.events]
    assert seqs == list(range(1, len(seqs) + 1))
    for phy in range(4):
        assert state.device(phy).health == worst(state, phy)
        assert set(state.device(phy).active) == set(state.device(phy).error_codes)
    there = [device.logic for device in state.devices if device.enumerated]
    assert there == list(range(len(there)))


def test_a_code_written_by_hand_keeps_the_health_it_came_with(host: SimHost) -> None:
    text = host.state_path.read_text()
    text = text.replace('"health": 0,\n   "error_codes": []', '"health": 2,\n   "error_codes": ["80E18402"]', 1)
    host.state_path.write_text(text)
    host.occur(0, "80e01801", severity=3)
    assert host.state().device(0).health == 3
    host.recover(0, "0x80E01801")
    assert (host.state().device(0).health, host.state().device(0).error_codes) == (2, ["80E18402"])


def test_two_hosts_have_no_die_in_common(tmp_path: Path) -> None:
    dies = [d.die.v for name in "ab" for d in SimHost.create(tmp_path / name, "910B", 4).state().devices]
    assert len(set(dies)) == 8


def test_events_are_kept_as_the_kernel_keeps_them(host: SimHost) -> None:
    def storm(state: HostState) -> HostState:
        for now_ms in range(EVENTS_KEPT + 5):
            state = inject.once(state, 0, "8C2FA009", 0, now_ms)
        return state

    host.change(storm)
    assert (host.state().events[0].seq, len(host.state().events)) == (6, EVENTS_KEPT)


def test_changes_at_once_all_count(host: SimHost) -> None:
    codes = [f"80E0{i:04X}" for i in range(12)]
    threads = [threading.Thread(target=host.occur, args=(0, code)) for code in codes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(host.state().device(0).error_codes) == codes
    assert [event.seq for event in host.state().events] == list(range(1, 13))


def test_sysfs_follows_the_bus(host: SimHost) -> None:
    devices = host.sysfs / "bus" / "pci" / "devices"
    assert len(list(devices.iterdir())) == 8
    assert (devices / "0000:c1:00.0" / "vendor").read_text() == "0x19e5\n"
    assert (devices / "0000:c1:00.0" / "device").read_text() == "0xd802\n"
    host.drop(0)
    assert not (devices / "0000:c1:00.0").exists()
    host.back(0)
    assert (devices / "0000:c1:00.0" / "class").read_text() == "0x120000\n"


@pytest.mark.parametrize("generation", ["310P", "910A", "910B", "A3", "950"])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, generation: str) -> None:
    state = defaults.healthy(generation, 16, 1_700_000_000)  # type: ignore[arg-type]
    save(tmp_path / "state.json", state)
    assert load(tmp_path / "state.json") == state
    assert len({device.pci.address for device in state.devices}) == 16
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('"generation": "910B"', '"generation": "910C"', "$.generation"),
        ('"temp": 45', '"temp": "hot"', "$.devices[0].temp"),
        ('"temp": 45', '"tmep": 45', "tmep"),
        ('"phy": 1', '"phy": 0', "devices[1].phy: 0 is used twice"),
        ('"error_codes": []', '"error_codes": ["xyz"]', "malformed fault code 'xyz'"),
        ('"schema": 1', '"schema": 7', "schema is 7"),
    ],
)
def test_a_bad_file_is_named_with_its_field(host: SimHost, before: str, after: str, complaint: str) -> None:
    text = host.state_path.read_text()
    assert before in text
    host.state_path.write_text(text.replace(before, after, 1))
    with pytest.raises(StateError) as caught:
        host.occur(0, "80E01801")
    assert str(host.state_path) in str(caught.value)
    assert complaint in str(caught.value)
    assert after in host.state_path.read_text(), "a file that cannot be understood is not overwritten"


def test_without_a_compiler_there_is_a_host_without_a_library(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    host = make_host()
    assert host.library is None
    assert host.npu_smi.exists()


def run(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(lab_host, list(arguments), env={"NPU_WARDEN_LAB_DIR": str(directory)})


def test_a_session_at_the_command_line(tmp_path: Path) -> None:
    made = run(tmp_path, "create", str(tmp_path), "--generation", "A3", "--chips", "4", "--json")
    facts = json.loads(made.output)
    assert facts["state"] == str(tmp_path / "state.json")
    assert facts["env"]["NPU_SIM_STATE"] == facts["state"]
    assert json.loads(run(tmp_path, "break", "1", "80E01801", "--severity", "2", "--json").output)["health"] == 2
    assert "health Alarm, codes 80E01801" in run(tmp_path, "break", "1", "80E01801", "--severity", "2").output
    assert "off the bus" in run(tmp_path, "drop", "2").output
    assert "link DOWN" in run(tmp_path, "link", "3", "down").output
    hung = run(tmp_path, "hang", "3", "--function", "dcmi_get_device_ecc_info").output
    assert "dcmi_get_device_ecc_info for chip 3 hangs" in hung
    assert run(tmp_path, "error", "0", "-8005").exit_code == 0
    shown = run(tmp_path, "show").output
    for expected in (
        "80E01801",
        "Alarm",
        "off the bus",
        "DOWN",
        "for chip 0 returns -8005",
        "dcmi_get_device_ecc_info",
    ):
        assert expected in shown
    assert "every reading of npu-smi hangs" in run(tmp_path, "hang").output
    assert "answer as they should" in run(tmp_path, "unhang").output
    assert json.loads(run(tmp_path, "unhang", "--json").output)["dcmi"] == {}
    assert "codes none" in run(tmp_path, "heal", "1", "80E01801").output
    assert "present" in run(tmp_path, "back", "2").output
    assert run(tmp_path, "break", "3", "80E01801", "--no-event").exit_code == 0
    assert "codes none" in run(tmp_path, "heal", "3").output
    assert [event.assertion for event in load(tmp_path / "state.json").events] == [1, 1, 0, 0]


REFUSALS = {
    "unknown chip": (("break", "99", "80E01801"), "no chip with physical id 99: this host has 0, 1"),
    "malformed code": (("break", "0", "hbm"), "malformed fault code 'hbm'"),
    "no such severity": (("break", "0", "80E01801", "--severity", "4"), "severity 4 does not exist"),
    "not active": (("heal", "0", "80E01801"), "chip 0 has no active code 80E01801; it has none"),
    "no host": (("show", "--dir", "/nonexistent"), "cannot read state file /nonexistent/state.json"),
    "odd dies": (("create", "/nonexistent", "--generation", "A3", "--chips", "3"), "A3 cards have 2 chips each"),
    "not a number": (("drop", "first"), "'first' is not a valid integer"),
}


@pytest.mark.parametrize(("arguments", "complaint"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals_are_one_line_and_exit_code_2(make_host: MakeHost, arguments: tuple[str, ...], complaint: str) -> None:
    host = make_host("910B", 2)
    result = run(host.directory, *arguments)
    assert result.exit_code == 2
    assert complaint in result.output


def test_a_host_that_is_not_named_and_one_that_is_a_rig(make_host: MakeHost) -> None:
    host = make_host("910B", 2)
    nowhere = CliRunner().invoke(lab_host, ["show"], env={"NPU_WARDEN_LAB_DIR": None})
    assert (nowhere.exit_code, "NPU_WARDEN_LAB_DIR" in nowhere.output) == (2, True)
    above = run(host.directory.parent, "break", "0", "80E01801")
    assert above.exit_code == 2
    assert f"--dir {host.directory}" in above.output


def test_a_truncated_state_file_is_refused(make_host: MakeHost) -> None:
    host = make_host("910B", 2)
    host.state_path.write_text(host.state_path.read_text()[:300])
    result = run(host.directory, "show")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert f"bad state file {host.state_path}" in result.output


def test_every_command_explains_itself() -> None:
    assert isinstance(lab_host, click.Group)
    for name, command in lab_host.commands.items():
        assert command.help, name
        assert any(option.name == "as_json" for option in command.params), name
