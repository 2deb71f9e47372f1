"""The captures that test_captures.py leaves: every one of them has an expectation, written by reading the file.

The files are not part of this repository; without them these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agent.decode.tools import TOOLS, decode
from tests.decode.judging import told, wrong
from tests.decode.test_captures import OTHERS, PARTS, TABLES, captures, expected_error

ECC_NAMES = (
    *("single_bit", "double_bit", "total_single_bit", "total_double_bit"),
    *("isolated_single_bit_pages", "isolated_double_bit_pages"),
)
ECC_NEXT = (*ECC_NAMES, "next_isolated_single_bit_pages", "next_isolated_double_bit_pages")


def cards(*present: int, dies: int = 1, total: int | None = None) -> dict[str, Any]:
    """`info -l`: cards with their dies, after as many that did not start as the total is higher."""
    gaps: list[dict[str, Any]] = [{}] * ((total or len(present)) - len(present))
    chips = gaps + [{"card": card, "chip_count": dies} for card in present]
    return {"total": len(chips), "chips": chips}


def ids(present: Iterable[int], name: str = "Ascend 910B3") -> dict[str, Any]:
    """`info -m` of hosts with one chip a card, whose logic id is the card's."""
    return {"chips": [{"card": card, "chip": 0, "logic": card, "name": name} for card in present]}


A3_IDS = {
    "chips": [{"card": n // 2, "chip": n % 2, "logic": n, "phy": n, "name": "Ascend910"} for n in range(16)],
}
HEALTHY = {"chips": [{"health": "OK", "codes": [], "texts": []}]}


def health(card: int, *words: str) -> dict[str, Any]:
    """`-t health -i N`: chips in order; the management controller behind them is none."""
    return {"chips": [{"card": card, "chip": chip, "health": word} for chip, word in enumerate(words)]}


def ecc(names: tuple[str, ...] = ECC_NEXT, **counts: int) -> dict[str, int]:
    return dict.fromkeys(names, 0) | counts


def ports(up: str, *records: tuple[str, bool], now: str, downs: int | None, ups: int) -> dict[str, Any]:
    """link_stat of device 0; `up`: the day on which the records are."""
    counts = {"up_count": ups} | ({} if downs is None else {"down_count": downs})
    return {"device": 0, "now": now, **counts, "records": [{"at": f"{up}T{at}", "up": is_up} for at, is_up in records]}


BOARD = {
    "serial": "SN-EXAMPLE-0001",
    "software_version": "26.1.0.b061",
    "board_id": "0x30",
    "pci_device_id": "0xD802",
    "chip_count": 1,
}
WHOLE: dict[str, dict[str, Any]] = {
    "hccn_tool-910A-ip-set": {"ip": "10.20.200.10", "netmask": "255.255.255.0"},
    "hccn_tool-910A-link_stat-healthy": ports(
        "2022-08-01",
        *(("14:43:40", True), ("14:43:40", False), ("14:43:26", True)),
        now="2022-08-02T03:09:26",
        downs=None,
        ups=2,
    ),
    "hccn_tool-910A-stat-zero": {"counters": {"roce_rx_err_pkt_num": 0, "roce_tx_err_pkt_num": 0}},
    "hccn_tool-910B-link_stat-flap": ports(
        "2025-10-05",
        *(("10:13:51", True), ("10:13:50", False), ("10:13:35", True)),
        now="2025-10-28T21:46:46",
        downs=1,
        ups=2,
    ),
    "hccn_tool-link_stat-healthy": ports("2025-11-29", ("07:06:40", True), now="2025-11-30T10:53:20", downs=0, ups=1),
    "hccn_tool-link_stat_tz-flap": ports(
        "2025-11-29",
        *(("15:13:20", True), ("15:11:40", False), ("15:10:00", True), ("15:08:20", False), ("15:06:40", True)),
        now="2025-11-30T18:53:20",
        downs=2,
        ups=3,
    ),
    "hccn_tool-950-dev_info": {
        "ports": [{"udie": 0, "port": port, "kind": "UB", "up": True} for port in (4, 5, 6)],
    },
    "hccn_tool-950-ub_connect": {"status": "PARTIAL LINK", "ports": {4: "UP", 5: "DOWN", 6: "PARTIAL UP"}},
    "hccn_tool-gateway-healthy": {"gateway": "10.20.165.1", "interface": "eth0"},
    "hccn_tool-gateway-noip": {"gateway": "10.20.165.1", "interface": "eth0"},
    "hccn_tool-net_health-dev_lost": {"status": "Success", "healthy": True},
    "hccn_tool-net_health-net1": {"status": "Socket fail", "healthy": False},
    "hccn_tool-net_health-net2": {"status": "Receive timeout", "healthy": False},
    "hccn_tool-net_health-net3": {"status": "Unreachable", "healthy": False},
    "hccn_tool-net_health-net6": {"status": "Init", "healthy": True},
    "hccn_tool-speed-healthy": {"speed_mbps": 200000},
    "npu-smi-910A-m-healthy": ids(range(8), "Ascend 910A"),
    "npu-smi-910B3-m-25.5.1-mcu_rows": ids((0, 1)),
    "npu-smi-info-m-healthy": ids(range(8)),
    "npu-smi-info-m-booting5": ids((0, 1, 2, 3, 4, 6, 7)),
    "npu-smi-info-m-occupied_chip2": ids((0, 1, 3, 4, 5, 6, 7)),
    "npu-smi-info-m-A3_healthy": A3_IDS,
    "npu-smi-info-m-A3_chip5_alarm": A3_IDS,
    "npu-smi-info-l-healthy": cards(*range(8)),
    "npu-smi-info-l-all_commlost_timeouts": cards(*range(8)),
    "npu-smi-info-l-occupied_chip2": cards(0, 1, 3, 4, 5, 6, 7, total=8),
    "npu-smi-info-l-A3_healthy": cards(*range(8), dies=2),
    "npu-smi-info-l-A3_chip5_alarm": cards(*range(8), dies=2),
    "npu-smi-info-l-A3_die5_missing": cards(0, 1, 3, 4, 5, 6, 7, dies=2, total=8),
    "npu-smi-910B-t_ecc-23.0.5": {
        "chips": [{"card": 1, "chip": 0, "hbm": ecc(ECC_NAMES), "ddr": ecc(ECC_NAMES)}],
    },
    "npu-smi-950-t_ecc": {"chips": [{"card": 0, "hbm": ecc()}]},
    "npu-smi-t_ecc-i0-c0-healthy": {"chips": [{"hbm": ecc(single_bit=3, total_single_bit=10)}]},
    "npu-smi-t_ecc-i3-card3_getters_fail": {"chips": [{"card": 3, "chip": 0, "hbm": ecc()}]},
    "npu-smi-t_ecc-i5-occupied_chip2": {
        "chips": [{"card": 5, "chip": 0, "hbm": ecc(single_bit=1, total_single_bit=1)}]
    },
    "npu-smi-910B-t_health-critical_hbm-rendered": {
        "chips": [
            {
                "health": "Critical",
                "codes": ["80E01801"],
                "texts": ["node type=HBM, sensor type=Memory, event state=Multi-bit ECC error"],
            }
        ]
    },
    "npu-smi-mcu-chip-health-healthy": HEALTHY,
    "npu-smi-t_health-i0-c0-healthy": HEALTHY,
    "npu-smi-t_health-i0-c0-mcu_dead": HEALTHY,
    "npu-smi-t_health-i2-c0-healthy": HEALTHY,
    "npu-smi-t_health-i3-c0-healthy": HEALTHY,
    "npu-smi-t_health-i5-c0-healthy": HEALTHY,
    "npu-smi-t_health-i0-faulted_renumbered": health(0, "OK"),
    "npu-smi-t_health-i2-A3_healthy": health(2, "OK", "OK"),
    "npu-smi-t_health-i2-healthy": health(2, "OK"),
    "npu-smi-t_health-i3-card3_getters_fail": health(3, "OK"),
    "npu-smi-t_health-i3-faulted_renumbered": health(3, "Critical"),
    "npu-smi-t_health-i3-healthy": health(3, "OK"),
    "npu-smi-t_health-i5-healthy": health(5, "OK"),
    "npu-smi-t_health-i5-occupied_chip2": health(5, "OK"),
    "npu-smi-t_proc-mem-i0-c0-healthy": {"processes": [{"pid": 40001, "memory_mb": 56630}]},
    "npu-smi-t_proc-mem-i0-c0-proc_live": {"processes": [{"pid": 27648, "name": "sleep", "memory_mb": 1024}]},
    "npu-smi-950-t_usages": {
        "chips": [
            {"card": 0, "hbm_total_mb": 131072, "hbm_pct": 3, "hbm_bandwidth_pct": 3, "ctrlcpu_pct": 40}
            | dict.fromkeys(("aicore_pct", "aivector_pct", "aicpu_pct", "npu_pct", "aicube_pct"), 0)
        ]
    },
}
SOME: dict[str, dict[str, Any]] = {
    "lspci-910A-8cards": {
        "devices": [
            {"bus": f"0000:{bus}:00.0", "vendor_id": None, "device_id": "d801", "revision": "20", "generation": "910A"}
            for bus in ("3D", "3E", "60", "61", "B1", "B2", "DA", "DB")
        ]
    },
    "npu-smi-910A-t_board_card-healthy": {
        "chips": [
            {"card": 0, "software_version": "23.0.5", "board_id": "0x02", "bus": "0000:61:00.0", "slot": 0}
            | {"pci_device_id": "0xD801", "chip_count": 1}
        ]
    },
    "npu-smi-t_board-i0-healthy": {"chips": [{"card": 0, "bus": "0000:C1:00.0", "slot": 0, **BOARD}]},
    "npu-smi-t_board-i5-occupied_chip2": {"chips": [{"card": 5, "bus": "0000:02:00.0", "slot": 5, **BOARD}]},
    "npu-smi-910B-t_hccs-healthy-rendered": {
        "chips": [
            {
                "health": "OK",
                "lane_mode": [4] * 7,
                "lanes": ["1111"] * 7,
                "speed_gbps": [224] * 7,
                "tx_packets": [1993002168] * 7,
                "tx_bytes": [39860043360] * 7,
                "rx_packets": [2091328898] * 7,
                "rx_bytes": [41826577960] * 7,
            }
        ]
    },
    "hccn_tool-optical-opt_absent": {"present": False},
    "hccn_tool-optical-opt_access_failed": {
        "present": True,
        "temp_c": 45.0,
        "vcc_mv": 3300.0,
        "serial": "SN-EXAMPLE-01",
        "tx_los": 0,
        "rx_los": 0,
        "tx_lol": 0,
        "rx_lol": 0,
        "vcc_mv_limits": {"low": 3135.0, "high": 3465.0},
        "tx_power_mw_limits": {"low": 0.2818, "high": 3.5481},
        "rx_power_mw_limits": {"low": 0.1445, "high": 3.5481},
        "lanes": [{"lane": n, "tx_power_mw": 1.2, "rx_power_mw": 0.9, "tx_bias_ma": 7.0} for n in range(4)],
    },
}
ELSEWHERE = {"hccn_tool-910B-stat-zero-rendered", "hccn_tool-stat-healthy", "npu-smi-950-t_topo"}
"""These have a test of their own in test_captures.py."""
ANY_TOOL = {
    "npu-smi-any-error-8005-driver_not_ready": -8005,
    "npu-smi-any-error-8005-no_device_nodes": -8005,
    "npu-smi-any-error-bad_card": -8008,
}


@pytest.fixture(scope="module")
def texts(shared_dir: Path) -> dict[str, tuple[str, str]]:
    return {path.stem: (tool, text) for path, tool, text in captures(shared_dir)}


def test_every_capture_of_a_tool_has_an_expectation(texts: dict[str, tuple[str, str]]) -> None:
    known = {*WHOLE, *SOME, *OTHERS, *PARTS, *ELSEWHERE, *(f"npu-smi-{name}" for name in TABLES)}
    assert [name for name in texts if name not in known and expected_error(name) is None] == []
    assert [name for name in (*WHOLE, *SOME, *ELSEWHERE) if name not in texts] == []


@pytest.mark.parametrize("name", WHOLE)
def test_whole_answers(name: str, texts: dict[str, tuple[str, str]]) -> None:
    assert told(decode(*texts[name])) == WHOLE[name]


@pytest.mark.parametrize("name", SOME)
def test_parts_of_long_answers(name: str, texts: dict[str, tuple[str, str]]) -> None:
    assert not wrong(SOME[name], told(decode(*texts[name])))


def test_a_module_that_is_absent_has_no_measured_values(texts: dict[str, tuple[str, str]]) -> None:
    answer = told(decode(*texts["hccn_tool-optical-opt_absent"]))
    assert not {"temp_c", "vcc_mv", "tx_power_mw_limits", "lanes"} & answer.keys()


def test_what_npu_smi_says_instead_of_any_answer_is_an_error_for_every_tool(shared_dir: Path) -> None:
    for name, code in ANY_TOOL.items():
        text = (shared_dir / "facts/samples" / f"{name}.txt").read_text()
        for tool in (tool for tool in TOOLS if tool.startswith("npu-smi")):
            answer = decode(tool, text)
            assert answer.error is not None
            assert (answer.error.code, told(answer)) == (code, {}), (name, tool)


@pytest.mark.parametrize("name", ["badcmd", "badid", "nogetflag"])
def test_a_call_that_hccn_tool_refuses_is_an_error_for_every_tool(name: str, shared_dir: Path) -> None:
    text = (shared_dir / "facts/samples-vendor" / f"hccn_tool-{name}-healthy.txt").read_text()
    for tool in (tool for tool in TOOLS if tool.startswith("hccn")):
        answer = decode(tool, text)
        assert answer.error is not None, tool
        assert told(answer) == {}, tool
