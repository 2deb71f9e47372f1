"""Captured text of real hosts, of the vendor's documents and of the vendor's tools in many states: what is in it.

The files are not part of this repository; without them these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.decode.tools import TOOLS, decode
from tests.decode.captures import tool_of
from tests.decode.judging import told, wrong

A2_BUSES = ("C1", "C2", "81", "82", "01", "02", "41", "42")
A2_HEALTHY = {card: f"{card}.0 910B3 OK 93.2W 45C 0000:{bus}:00.0 0% 3445/65536" for card, bus in enumerate(A2_BUSES)}
A2_BUSY = A2_HEALTHY | {0: "0.0 910B3 OK 93.2W 45C 0000:C1:00.0 38% 60156/65536"}


def a2(*missing: int, **changed: str) -> list[str]:
    """The chips of an 8-card host: `c3="..."` replaces a card's line."""
    lines = A2_BUSY | {int(name[1:]): text for name, text in changed.items()}
    return [line for card, line in lines.items() if card not in missing]


def a3(buses: str, *missing: int, **health: str) -> list[str]:
    """The dies of an 8-card A3 host by physical id; only the first die of a card shows its power."""
    lines = []
    for phy, bus in zip((n for n in range(16) if n // 2 not in missing), buses.split(), strict=True):
        power = "93.2W" if phy % 2 == 0 else "-W"
        state = health.get(f"p{phy}", "OK")
        lines.append(f"{phy // 2}.{phy % 2}@{phy} Ascend910 {state} {power} 45C 0000:{bus}:00.0 0% 3445/65536")
    return lines


def show(chip: dict[str, Any]) -> str:
    """One line for a chip of `npu-smi info`; - where nothing is told."""
    where = f"{chip.get('card', '-')}.{chip.get('chip', '-')}" + (f"@{chip['phy']}" if "phy" in chip else "")
    memory = "".join(
        f" {chip[f'{kind}_used_mb']}/{chip[f'{kind}_total_mb']}"
        for kind in ("memory", "hbm")
        if f"{kind}_total_mb" in chip
    )
    return (
        f"{where} {chip.get('name', '-')} {chip.get('health', '-')} {chip.get('power_w', '-')}W "
        f"{chip.get('temp_c', '-')}C {chip.get('bus', '-')} {chip.get('aicore_pct', '-')}%{memory}"
    )


BUSES_16 = "C1 C2 81 82 01 02 41 42 C1 C2 81 82 01 02 41 42"
BUSES_14 = "C1 C2 81 82 02 41 42 C1 C2 81 82 01 02 41"
TABLES = {
    "310-info-docs-bus_na": ["0.0 xxx OK 10.4W 66C - 0% 957/10810"],
    "310P-info-24.1.rc2.b010-bus_na": ["0.0 310P3 OK 9.6W 56C - -% 3398/11578"],
    "310P3-info-23.0.0-process_none": ["24.0 310P3 OK -W 29C 0000:04:00.0 0% 1832/21527"],
    "310P3-info-25.2.1-sparse_ids": [
        "0.0 310P3 OK -W 49C 0000:01:00.0 0% 19435/21527",
        "32.0 310P3 OK -W 49C 0000:02:00.0 0% 1910/21527",
        "32768.0 310P3 OK -W 46C 0000:81:00.0 0% 19562/21527",
    ],
    "910B3-info-25.5.1-process": [
        "0.0 910B3 OK 102.8W 45C 0000:C1:00.0 0% 3445/65536",
        "5.0 910B3 OK 100.8W 44C 0000:02:00.0 12% 60156/65536",
    ],
    "910B4-info-25.5.2-single_visible_id5": ["5.0 910B4 OK 89.9W 39C 0000:41:00.0 0% 2922/32768"],
    "910B4_1-info-25.2.0-busy": [
        "0.0 910B4-1 OK 131.1W 48C 0000:D8:00.0 27% 57347/65536",
        "1.0 910B4-1 OK 127.6W 46C 0000:D9:00.0 28% 57347/65536",
    ],
    "910_24.1.rc2-info-narrow": [
        "2.0 xxx OK 64.4W 51C 0000:01:00.0 0% 1873/15077 0/32768",
        "5.0 xxx OK 64.0W 52C 0000:81:00.0 0% 1874/15077 0/32768",
    ],
    "950-info": ["0.- xxx OK 204.4W 56C 0000:91:00.0 0% 4439/86016"],
    "A3-info-26.0.rc1-wide-dualchip": [
        "0.0@0 Ascend910 OK 204.0W 43C 0000:9D:00.0 100% 59807/65536",
        "0.1@1 Ascend910 OK -W 40C 0000:9F:00.0 100% 59529/65536",
    ],
    "A3-info-wide-chip1_warning": [
        "0.0@0 Ascend910 OK 161.9W 32C 0000:9D:00.0 0% 3101/65536",
        "0.1@1 Ascend910 Warning -W 32C 0000:9F:00.0 0% 2887/65536",
        "1.0@2 Ascend910 OK 164.2W 32C 0000:99:00.0 0% 3101/65536",
        "1.1@3 Ascend910 OK -W 32C 0000:9B:00.0 0% 2887/65536",
    ],
    "info-A3_healthy": a3(BUSES_16),
    "info-A3_chip5_alarm": a3(BUSES_16, p5="Alarm", p6="Critical"),
    "info-A3_die5_missing": a3(BUSES_14, 2),
    "info-boot3_after_init": a2(c3="-.0 - - -W -C 0000:82:00.0 0% 3445/65536"),
    "info-booting5": a2(5),
    "info-card3_lost_timeouts": a2(c3="3.0 910B3 Critical -W -C 0000:82:00.0 -%"),
    "info-card3_slow": a2(),
    "info-faulted_commlost5": a2(
        c2="2.0 910B3 Alarm 93.2W 45C 0000:81:00.0 0% 3445/65536",
        c3="3.0 910B3 Critical 93.2W 45C 0000:82:00.0 0% 3445/65536",
        c5="5.0 910B3 Critical 93.2W 45C 0000:02:00.0 0% 3445/65536",
    ),
    "info-faulted_gap": a2(
        5,
        7,
        c2="2.0 910B3 Alarm 93.2W 45C 0000:81:00.0 0% 3445/65536",
        c3="3.0 910B3 Critical 93.2W 45C 0000:82:00.0 0% 3445/65536",
    ),
    "info-health3_fails_after_init": a2(),
    "info-in-container-healthy": a2(),
    "info-mcu_dead": a2(),
    "info-occupied_chip2": a2(2),
    "info-proc_live": a2(c0=A2_HEALTHY[0]),
    "info-status3_fails_after_init": a2(c3="3.0 910B3 UNKNOWN 93.2W 45C 0000:82:00.0 0% 3445/65536"),
}
OTHERS: dict[str, dict[str, Any]] = {
    "hccn_tool-910A-fec-nofec": {"mode": "no FEC mode", "enabled": False},
    "hccn_tool-910A-net_health-socket_failed": {"status": "Socket failed", "healthy": False},
    "hccn_tool-910A-stat-errors": {"counters": {"roce_rx_err_pkt_num": 13, "roce_tx_err_pkt_num": 77}},
    "hccn_tool-910B-gateway": {"gateway": "10.20.165.1", "interface": "eth0"},
    "hccn_tool-910B-net_health-fault": {"status": "Fault", "healthy": False},
    "hccn_tool-910B-net_health-init": {"status": "Init", "healthy": True},
    "hccn_tool-910B-net_health-success": {"status": "Success", "healthy": True},
    "hccn_tool-910B-speed-200g-rendered": {"speed_mbps": 200000},
    "hccn_tool-910B-speed-unknown-rendered": {},
    "hccn_tool-950-link": {"up": False},
    "hccn_tool-910B-link-up": {"up": True},
    "hccn_tool-ip-healthy": {"ip": "10.20.165.20", "netmask": "255.255.255.0"},
    "hccn_tool-link-dev_lost": {"up": True},
    "hccn_tool-link-link_down": {"up": False},
    "hccn_tool-net_health-net4": {"status": "Time exceeded", "healthy": False},
    "hccn_tool-net_health-net7": {"status": "Thread error", "healthy": False},
    "hccn_tool-net_health-net9": {"status": "Unknown"},
    "hccn_tool-speed-link_down": {},
    "hccn_tool-speed-speed_ffff": {},
    "npu-smi-910A-t_health-ok": {"chips": [{"health": "OK", "codes": [], "texts": []}]},
    "npu-smi-950-t_health": {"chips": [{"card": 0, "health": "OK", "codes": [], "texts": []}]},
    "npu-smi-t_health-i0-all_commlost_timeouts": {"chips": [{"card": 0, "chip": 0, "health": "Critical"}]},
    "npu-smi-t_health-i2-alarm_nocodes": {"chips": [{"card": 2, "chip": 0, "health": "Alarm"}]},
    "npu-smi-t_health-i2-A3_chip5_alarm": {
        "chips": [{"card": 2, "chip": 0, "health": "OK"}, {"card": 2, "chip": 1, "health": "Alarm"}]
    },
    "npu-smi-910B-t_proc_mem-25.5.1": {
        "processes": [{"pid": 207795, "name": "VLLMEngineCor", "memory_mb": 55436}],
    },
    "npu-smi-950-t_proc_mem": {"processes": [{"pid": 395864, "name": "power_test", "memory_mb": 5118, "card": 0}]},
    "npu-smi-t_proc-mem-i0-healthy": {"processes": [{"pid": 40001, "memory_mb": 56630, "card": 0, "chip": 0}]},
    "npu-smi-t_proc-mem-i5-occupied_chip2": {},
    "npu-smi-950-l": {"total": 1, "chips": [{"card": 0, "name": "A5 PCIe Card", "serial": "SN0000000001"}]},
    "npu-smi-950-m": {"chips": [{"card": 0, "chip": 0, "phy": 0, "slot": 0, "name": "xxx"}]},
    "npu-smi-info-l-faulted_gap": {
        "total": 7,
        "chips": [{}, *({"card": card, "chip_count": 1} for card in (0, 1, 2, 3, 4, 6))],
    },
    "npu-smi-info-m-faulted_renumbered": {
        "chips": [
            {"card": card, "chip": 0, "logic": logic, "name": "Ascend 910B3"}
            for logic, card in enumerate((0, 1, 2, 3, 4, 6, 7))
        ]
    },
    "npu-smi-info-m-A3_die5_booting": {
        "chips": [
            {"card": phy // 2, "chip": phy % 2, "logic": phy, "phy": phy, "name": "Ascend910"}
            for phy in range(16)
            if phy not in (4, 5)
        ]
    },
    "npu-smi-t_usages-i0-c0-healthy": {
        "chips": [
            {"hbm_total_mb": 65536, "hbm_pct": 91, "hbm_bandwidth_pct": 0}
            | {f"{unit}_pct": 0 for unit in ("aicore", "aivector", "aicpu", "ctrlcpu", "npu", "aicube")}
        ]
    },
    "npu-smi-910A-t_usages-healthy": {
        "chips": [
            {"card": 0, "chip": 0, "memory_total_mb": 13553, "memory_pct": 6, "memory_bandwidth_pct": 0}
            | {"hugepages_total": 0, "hugepages_pct": 0, "hbm_total_mb": 31129, "hbm_pct": 0, "hbm_bandwidth_pct": 0}
            | {"aicore_pct": 0, "aicpu_pct": 0, "ctrlcpu_pct": 0}
        ]
    },
}
PARTS: dict[str, dict[str, Any]] = {
    "hccn_tool-910A-optical-rx_los_lowpower_notpresent": {
        "present": False,
        "temp_c": 47.0,
        "rx_los": 255,
        "tx_lol": 0,
        "rx_power_mw_limits": {"low": 0.1445, "high": 3.5481},
        "lanes": [
            {"lane": 0, "tx_power_mw": 4.4035, "tx_bias_ma": 7.936, "media_snr_db": 23.1211},
            {"lane": 1, "rx_power_mw": 0.0054},
        ],
    },
    "hccn_tool-optical-dev_lost": {"present": True, "vcc_mv": 3300.0, "serial": "SN-EXAMPLE-01", "tx_los": 0},
    "hccn_tool-950-fec": {"mode": "128 T4", "ports": [{"npu": 0, "udie": 0, "port": 4}]},
    "hccn_tool-950-speed": {
        "speed_mbps": 400000,
        "ports": [{"port": 4, "values": {"Status": "normal", "Width": "X4"}}],
    },
    "hccn_tool-950-stat": {"port": 4, "counters": {"retry_req_sum": 0, "crc_error_sum": 0}},
    "hccn_tool-link_stat-flap": {
        "device": 0,
        "now": "2025-11-30T10:53:20",
        "up_count": 3,
        "down_count": 2,
        "records": [{"at": "2025-11-29T07:13:20", "up": True}, {"at": "2025-11-29T07:11:40", "up": False}],
    },
    "hccn_tool-910A-link_stat-down_last": {"up_count": 2, "records": [{"at": "2022-08-01T14:44:40", "up": False}]},
    "hccn_tool-950-link_stat": {"port": 4, "down_count": 2, "records": [{"at": "2026-02-09T21:45:51", "up": True}]},
    "npu-smi-910A-t_health-alarm_3codes": {
        "chips": [{"health": "Alarm", "codes": ["A4025021", "8C03A000", "8C084E00"]}]
    },
    "npu-smi-t_health-i2-c0-faulted_renumbered": {"chips": [{"health": "Alarm", "codes": ["80E01801", "80E18402"]}]},
    "npu-smi-t_health-i3-c0-faulted_renumbered": {"chips": [{"health": "Critical", "codes": ["80E0020B"]}]},
    "npu-smi-910A-t_board_chip-healthy": {
        "chips": [{"card": 0, "chip": 0, "name": "910A", "bus": "0000:61:00.0", "position": 0}]
    },
    "npu-smi-950-t_board": {"chips": [{"card": 0, "bus": "0000:F1:00.0", "main_board_id": "0x68(1P)", "slot": 0}]},
    "npu-smi-t_ecc-i0-healthy": {"chips": [{"card": 0, "chip": 0, "hbm": {"single_bit": 3, "total_single_bit": 10}}]},
    "npu-smi-910B-t_hccs-healthy-3lanes": {
        "chips": [{"health": "OK", "tx_packets": [1993002168, 1434439505, 1588783520], "error_count": [0, 0, 0]}]
    },
    "npu-smi-t_hccs-i0-c0-healthy": {"chips": [{"lane_mode": [4] * 7, "lanes": ["1111"] * 7, "speed_gbps": [224] * 7}]},
    "npu-smi-A3-t_topo-phyid": {
        "matrices": [{"devices": ["Phy-ID12", "Phy-ID13"], "rows": [{"links": {"Phy-ID12": "X", "Phy-ID13": "SIO"}}]}]
    },
    "kmsg-ascend-heartbeat_lost": {"records": [{"time_s": 1197.584409, "code": "40F84E00", "device": 1}]},
    "kmsg-host-mixed": {
        "records": [
            {"code": "NW-KMSG-RESOURCE"},
            {"code": "NW-KMSG-STORAGE"},
            {"code": "NW-KMSG-OOM"},
            {"time_s": 21202265.88615},
            {"time_s": 293.039556, "code": "NW-KMSG-LOCKUP"},
            {"time_s": 293.039558},
        ]
    },
    "lspci-910A-7cards_one_dropped": {
        "devices": [
            {"bus": f"0000:{bus}:00.0", "device_id": "d801", "generation": "910A"}
            for bus in ("3D", "3E", "60", "B1", "B2", "DA", "DB")
        ]
    },
}
ERRORS: dict[str, int | str] = {
    "boardinfo_fails": -8005,
    "unknown_board": -8005,
    "chipinfo_fails": -8009,
    "pcieinfo_fails": -8009,
    "list_fails": -8009,
    "hal_open_fails": -8001,
    "all_booting": -8005,
    "occupied_each": -8020,
    "occupied_all": -8020,
    "info-all_commlost": -8006,
    "t_spod": -8255,
    "invalid_card": -8008,
    "opt_m16": "busy",
    "opt_err": "failed",
    "opt_m": "failed",
    "opt_neg": "failed",
    "nh_": "failed",
    "devinfo87": "failed",
    "link_fail16": "failed",
    "link_res": "failed",
    "dev_boot": "not-ready",
    "dev_missing": "no-device",
    "link-nodriver": "no-device",
    "nodriver": -8005,
    "ip-noip": "no-address",
    "ip-not_configured": "no-address",
    "ip-empty": "empty",
    "codes3_fail": "failed",
    "c0-status3_fails": "failed",
    "i3-status3_fails": "failed",
    "i3-boot3": "failed",
    "t_usages-i3-card3_getters_fail": "failed",
    "ecc3_fails": "failed",
    "board-i0-mcu_dead": "failed",
    "t_hccs-i0-healthy": "failed",
    "t_topo-i0-healthy": "failed",
    "A3_die5_booting": -8008,
    "i5-faulted_renumbered": -8008,
    "i5-c0-faulted_renumbered": -8008,
    "i5-booting5": -8008,
}
"""What is in the name of a file whose text is an error, and its code; the first that fits."""


def captures(shared_dir: Path) -> Iterator[tuple[Path, str, str]]:
    """File, tool, text; those that belong to a tool."""
    for path in sorted(shared_dir.glob("facts/samples*/*.txt")):
        if (tool := tool_of(path)) is not None:
            yield path, tool, path.read_text()


@pytest.fixture(scope="module")
def texts(shared_dir: Path) -> dict[str, tuple[str, str]]:
    """Tool and text by the name of the file."""
    found = {path.stem: (tool, text) for path, tool, text in captures(shared_dir)}
    assert len(found) > 200
    return found


def expected_error(name: str) -> int | str | None:
    if name in OTHERS or name in PARTS or name.removeprefix("npu-smi-") in TABLES or "-info-m-" in name:
        return -8020 if name.endswith("m-occupied_each") else None
    return next((code for part, code in ERRORS.items() if part in name), None)


def test_every_capture_is_an_answer_or_the_error_it_shows(texts: dict[str, tuple[str, str]]) -> None:
    for name, (tool, text) in texts.items():
        error = decode(tool, text).error
        assert (error and error.code) == expected_error(name), (name, error)


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, texts: dict[str, tuple[str, str]]) -> None:
    tool, text = texts[f"npu-smi-{name}"]
    assert tool == "npu-smi-info"
    answer = told(decode(tool, text))
    assert [show(chip) for chip in answer["chips"]] == TABLES[name]
    busy = [line for line in TABLES[name] if " 60156/65536" in line and "93.2W" in line]
    if busy:
        assert answer["processes"] == [{"pid": 40001, "memory_mb": 56630, "card": 0, "chip": 0}]


@pytest.mark.parametrize("name", OTHERS)
def test_whole_answers(name: str, texts: dict[str, tuple[str, str]]) -> None:
    assert told(decode(*texts[name])) == OTHERS[name]


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_long_answers(name: str, texts: dict[str, tuple[str, str]]) -> None:
    answer = told(decode(*texts[name]))
    assert not wrong(PARTS[name], answer)


def test_counters_of_a_healthy_port_are_all_there(texts: dict[str, tuple[str, str]]) -> None:
    for name in ("hccn_tool-stat-healthy", "hccn_tool-910B-stat-zero-rendered"):
        counters = told(decode(*texts[name]))["counters"]
        assert len(counters) == 48
        assert set(counters.values()) == {0}


def test_three_topologies_in_one_document(texts: dict[str, tuple[str, str]]) -> None:
    matrices = told(decode(*texts["npu-smi-950-t_topo"]))["matrices"]
    assert [[row["device"] for row in matrix["rows"]] for matrix in matrices] == [[f"NPU{n}" for n in range(8)]] * 3
    assert [matrix["rows"][4]["links"]["NPU7"] for matrix in matrices] == ["SYS", "SYS", "UB"]
    assert {row["cpu_affinity"] for matrix in matrices for row in matrix["rows"][4:]} == {"64-127,192-255"}


def test_every_cut_of_every_capture_is_an_error_or_a_correct_part(texts: dict[str, tuple[str, str]]) -> None:
    for name, (tool, text) in texts.items():
        whole = told(decode(tool, text))
        at_lines = [place + 1 for place, char in enumerate(text) if char == "\n"]
        for end in sorted({*at_lines, *range(0, len(text), 50)}):
            part = told(decode(tool, text[:end]))
            assert not (bad := wrong(part, whole)), (name, end, text[max(0, end - 60) : end], bad)


def test_every_capture_is_an_error_for_every_other_tool(texts: dict[str, tuple[str, str]]) -> None:
    for name, (tool, text) in texts.items():
        for other in TOOLS.keys() - {tool}:
            answer = decode(other, text)
            assert answer.error is not None, (name, other)
