"""One short text for each format, written for these tests, and what is in it. None and empty values are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """name: what is special. text: what the tool prints. expected: the answer without its empty values."""

    tool: str
    name: str
    text: str
    expected: dict[str, Any]


def kv(*rows: tuple[str, object], width: int = 30) -> str:
    return "".join(f"\t{key:<{width}} : {value}\n" if key else "\n" for key, value in rows)


BLANK = ("", "")

TABLE_A2 = """\
+------------------------------------------------------------------------------------------+
| npu-smi 25.9.9                   Version: 25.9.9                                         |
+---------------------+---------------+----------------------------------------------------+
| NPU   Name          | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+=====================+===============+====================================================+
| 1     910B3         | Warning       | 88.5        47                0    / 0             |
| 0                   | 0000:C2:00.0  | 61          0    / 0          61234/ 65536         |
+=====================+===============+====================================================+
| 0                   | 0000:82:00.0  | 0           0    / 0          3300 / 65536         |
+=====================+===============+====================================================+
| 6     910B3         | Critical      | 0.0         0                 0    / 0             |
| 0                   | 0000:42:00.0  | 0           0    / 0          0    / 0             |
+=====================+===============+====================================================+
+---------------------+---------------+----------------------------------------------------+
| NPU     Chip        | Process id    | Process name             | Process memory(MB)      |
+=====================+===============+====================================================+
| 1       0           | 31415         | mindie_llm_back          | 57001                   |
| 1       0           | 31416         |                          | 310                     |
+=====================+===============+====================================================+
| No running processes found in NPU 6                                                      |
+=====================+===============+====================================================+
[WARNING]The driver package may not be completely installed, which may cause function abnormal.
"""
TABLE_950 = """\
+---------------------------------------------------------------------------------+
| npu-smi 27.0                            Version: 27.0                           |
+----------------------+---------------+------------------------------------------+
| NPU ID | Name        | Health        | Power(W)  Temp(C)    Hugepages-Usage(page)|
|        |             | Bus-Id        | NPU Util(%) Memory-Usage(MB) HBM-Usage(MB)|
+========+=============+===============+==========================================+
| 3      | 950PR       | OK            | 201.5     55         0    / 0            |
|        |             | 0000:A1:00.0  | 9         0  / 0     4501 / 131072       |
+========+=============+===============+==========================================+
+----------------------+---------------+------------------------------------------+
| NPU ID               | Process id    | Process name    | Process memory(MB)     |
+======================+===============+==========================================+
| 3                    | 77            | vllm            | 120000                 |
+======================+===============+==========================================+
"""
TABLE_A3 = """\
| NPU   Name          | Health    | Power(W)   Temp(C)          Hugepages-Usage(page) |
| Chip  Phy-ID        | Bus-Id    | AICore(%)  Memory-Usage(MB) HBM-Usage(MB)         |
| 5     Ascend910     | UNKNOWN   | -          39               0   / 0               |
| 1     11            | NA        | 4          0   / 0          2870/ 65536           |
"""
OPTICAL = """\
optical info:
present              : present
temperature          : 51 C
vendor name          : ACME
vendor serial number : AC0042
Vcc                  : 3291.50 mV
Tx Power0            : 1.3100 mW
Rx Power0            : 0.0000 mW
Tx Power1            : NA
TxPower High Thres   : 3.5000 mW
TxPower Low Thres    : get failed
Tx Bias0             : 6.5120 mA
Rx Los Flag          : 0x3
Tx LoL Flag          : NA
Media SNR Lane0      : 22.5000 dB
Host SNR Lane0       : not supported
"""
CASES = [
    Case(
        "npu-smi-info",
        "910B: not ready, failed getters, processes",
        TABLE_A2,
        {
            "version": "25.9.9",
            "chips": [
                {
                    "card": 1,
                    "chip": 0,
                    "name": "910B3",
                    "health": "Warning",
                    "power_w": 88.5,
                    "temp_c": 47,
                    "bus": "0000:C2:00.0",
                    "aicore_pct": 61,
                    "hbm_used_mb": 61234,
                    "hbm_total_mb": 65536,
                },
                {"chip": 0, "bus": "0000:82:00.0", "aicore_pct": 0, "hbm_used_mb": 3300, "hbm_total_mb": 65536},
                {"card": 6, "chip": 0, "name": "910B3", "health": "Critical", "bus": "0000:42:00.0"},
            ],
            "processes": [
                {"pid": 31415, "name": "mindie_llm_back", "memory_mb": 57001, "card": 1, "chip": 0},
                {"pid": 31416, "memory_mb": 310, "card": 1, "chip": 0},
            ],
        },
    ),
    Case(
        "npu-smi-info",
        "950: card and name in cells of their own",
        TABLE_950,
        {
            "version": "27.0",
            "chips": [
                {
                    "card": 3,
                    "name": "950PR",
                    "health": "OK",
                    "power_w": 201.5,
                    "temp_c": 55,
                    "bus": "0000:A1:00.0",
                    "aicore_pct": 9,
                    "hbm_used_mb": 4501,
                    "hbm_total_mb": 131072,
                }
            ],
            "processes": [{"pid": 77, "name": "vllm", "memory_mb": 120000, "card": 3}],
        },
    ),
    Case(
        "npu-smi-info",
        "A3: physical ids; no borders, no bus",
        TABLE_A3,
        {
            "chips": [
                {
                    "card": 5,
                    "chip": 1,
                    "phy": 11,
                    "name": "Ascend910",
                    "health": "UNKNOWN",
                    "temp_c": 39,
                    "aicore_pct": 4,
                    "hbm_used_mb": 2870,
                    "hbm_total_mb": 65536,
                }
            ]
        },
    ),
    Case(
        "npu-smi-health",
        "one chip",
        kv(("Health Status", "Alarm"), ("Error Code", "80e01801 8C03A000"), ("Error Information", "one"))
        + f"\n\t{'':<30} : two\n",
        {"chips": [{"health": "Alarm", "codes": ["80E01801", "8C03A000"], "texts": ["one", "two"]}]},
    ),
    Case(
        "npu-smi-health",
        "950, healthy: no codes is not the same as codes unknown",
        kv(("NPU ID", 4), ("Health", "OK"), ("Error Code", "NA"), ("Error Information", "NA")),
        {"chips": [{"card": 4, "health": "OK", "codes": [], "texts": []}]},
    ),
    Case(
        "npu-smi-health",
        "a card: the id stands behind its health, the controller is no chip",
        kv(
            ("NPU ID", 2), ("Chip Count", 2), BLANK, ("Health", "OK"), ("Chip ID", 0), BLANK, ("Health", "UNKNOWN"),
            ("Chip ID", 1), BLANK, ("Health", "Alarm"), ("Chip Name", "MCU"), BLANK,
        ),
        {"chips": [{"card": 2, "chip": 0, "health": "OK"}, {"card": 2, "chip": 1, "health": "UNKNOWN"}]},
    ),
    Case(
        "npu-smi-board",
        "a card",
        kv(("NPU ID", 7), ("Serial Number", "S 1"), ("Firmware Version", "NA"), ("PCIe Bus Info", "0000:c1:00.0"),
           ("Slot ID", 3), ("PCI Device ID", "0xD803"), ("Chip Count", 2)),
        {"chips": [{"card": 7, "slot": 3, "bus": "0000:C1:00.0", "serial": "S 1", "pci_device_id": "0xD803",
                    "chip_count": 2}]},
    ),
    Case(
        "npu-smi-ecc",
        "A3, two chips",
        kv(("NPU ID", 1), ("Chip Count", 2), BLANK, ("HBM Single Bit Error Count", 17), ("Chip ID", 0), BLANK,
           ("HBM Double Bit Isolated Pages Count", 64), ("DDR Double Bit Error Count", 0), ("Chip ID", 1), width=40),
        {"chips": [
            {"card": 1, "chip": 0, "hbm": {"single_bit": 17}},
            {"card": 1, "chip": 1, "hbm": {"isolated_double_bit_pages": 64}, "ddr": {"double_bit": 0}},
        ]},
    ),
    Case(
        "npu-smi-usages",
        "rates of memory that has no size are no rates",
        kv(("DDR Capacity(MB)", 0), ("DDR Usage Rate(%)", 0), ("HBM Capacity(MB)", 65536), ("HBM Usage Rate(%)", 91),
           ("Aicore Usage Rate(%)", 0), ("NPU Utilization(%)", 13)),
        {"chips": [{"hbm_total_mb": 65536, "hbm_pct": 91, "aicore_pct": 0, "npu_pct": 13}]},
    ),
    Case(
        "npu-smi-m",
        "A3 after a lost card",
        "\tNPU ID        Chip ID       Chip Logic ID    Chip Phy-ID   Chip Name     \n"
        "\t-1            0             -                -             Mcu           \n"
        "\t4             1             7                9             Ascend910\n"
        "\t4             2             -                -             Mcu           \n",
        {"chips": [{"card": 4, "chip": 1, "logic": 7, "phy": 9, "name": "Ascend910"}]},
    ),
    Case(
        "npu-smi-l",
        "a card that was not there at init",
        kv(("Total Count", 2), BLANK, ("NPU ID", -1), ("Chip Count", 0), BLANK, ("NPU ID", 32), ("Chip Count", 1)),
        {"total": 2, "chips": [{}, {"card": 32, "chip_count": 1}]},
    ),
    Case(
        "npu-smi-proc-mem",
        "two chips; a process that cannot be seen",
        kv(("NPU ID", 3), ("Chip Count", 2), BLANK) + "\tGet pid name failed.\n"
        "\tProcess id:501    Process name:                 Process memory(MB):800\n" + kv(("Chip ID", 0), BLANK)
        + "\tProcess id:502    Process name:my worker        Process memory(MB):900\n" + kv(("Chip ID", 1), BLANK),
        {"processes": [{"pid": 501, "memory_mb": 800, "card": 3, "chip": 0},
                       {"pid": 502, "name": "my worker", "memory_mb": 900, "card": 3, "chip": 1}]},
    ),
    Case("npu-smi-proc-mem", "nothing runs", "\tNo process in device.\n", {}),
    Case(
        "npu-smi-hccs",
        "a link is broken",
        kv(("hccs health status", "NOK"), ("hccs lane mode", "[4       2       ]"),
           ("hccs link lane list", "[1111    0011    ]"), ("hccs error count", "[0       31415   ]"),
           ("hccs first error lane", 3)),
        {"chips": [{"health": "NOK", "lane_mode": [4, 2], "lanes": ["1111", "0011"], "error_count": [0, 31415],
                    "first_error_lane": "3"}]},
    ),
    Case(
        "npu-smi-spod",
        "A3",
        kv(("SDID", 16777216), ("Super Pod Size", 384), ("Super Pod ID", 0), ("Server Index", 4294967295)),
        {"chips": [{"sdid": 16777216, "super_pod_size": 384, "super_pod_id": 0}]},
    ),
    Case(
        "npu-smi-topo",
        "two chips",
        "           NPU0       NPU4       CPU Affinity\n"
        "NPU0       X          HCCS_SW    0-31,64-95\n"
        "NPU4       NA         X          32-63\n\nLegend:\n\n  X    = Self\n",
        {"matrices": [{"devices": ["NPU0", "NPU4"], "rows": [
            {"device": "NPU0", "links": {"NPU0": "X", "NPU4": "HCCS_SW"}, "cpu_affinity": "0-31,64-95"},
            {"device": "NPU4", "links": {"NPU4": "X"}, "cpu_affinity": "32-63"},
        ]}]},
    ),
    Case("hccn-link", "down", "link status: DOWN\n", {"up": False}),
    Case(
        "hccn-link-stat",
        "910B",
        "[devid 6]current time        : Thu Jan  9 08:00:00 2025\n[devid 6]link up count       : 12\n"
        "[devid 6]link down count     : 1\n[devid 6]link change records :\n"
        "[devid 6]    Wed Jan  8 23:59:59 2025    LINK UP\n[devid 6]    Wed Jan  8 23:59:51 2025    LINK DOWN\n",
        {"device": 6, "now": "2025-01-09T08:00:00", "up_count": 12, "down_count": 1,
         "records": [{"at": "2025-01-08T23:59:59", "up": True}, {"at": "2025-01-08T23:59:51", "up": False}]},
    ),
    Case(
        "hccn-link-stat",
        "950",
        "link up count :    1\nlink down count :  0\n+-----+------+------+-------------+--------------------------+\n"
        "| NPU | UDie | Port | Link_Status | Time_Stamp               |\n"
        "+-----+------+------+-------------+--------------------------+\n"
        "|  2  |  1   |  5   |  LINK_UP    | Mon Mar 2 01:02:03 2026  |\n"
        "+-----+------+------+-------------+--------------------------+\n",
        {"device": 2, "udie": 1, "port": 5, "up_count": 1, "down_count": 0,
         "records": [{"at": "2026-03-02T01:02:03", "up": True}]},
    ),
    Case("hccn-net-health", "a fault", "net health status: Receive timeout\n",
         {"status": "Receive timeout", "healthy": False}),
    Case("hccn-net-health", "no detection address", "net health status: Init\n", {"status": "Init", "healthy": True}),
    Case("hccn-stat", "910B", "packet statistics:\nroce_rx_err_pkt_num:13\nmac_tx_total_oct_num:18446744073709551615\n",
         {"counters": {"roce_rx_err_pkt_num": 13, "mac_tx_total_oct_num": 2**64 - 1}}),
    Case("hccn-stat", "950", "packet statistics:\nport_id: 4\ncrc_error_sum: 21\n",
         {"port": 4, "counters": {"crc_error_sum": 21}}),
    Case(
        "hccn-optical",
        "loss of signal",
        OPTICAL,
        {"present": True, "temp_c": 51.0, "vcc_mv": 3291.5, "vendor": "ACME", "serial": "AC0042", "rx_los": 3,
         "tx_power_mw_limits": {"high": 3.5}, "lanes": [
            {"lane": 0, "tx_power_mw": 1.31, "rx_power_mw": 0.0, "tx_bias_ma": 6.512, "media_snr_db": 22.5},
            {"lane": 1},
        ]},
    ),
    Case("hccn-optical", "absent", "optical info:\npresent              : not present\nTx Power             : NA\n",
         {"present": False}),
    Case("hccn-speed", "up", "Speed: 200000 Mb/s\n", {"speed_mbps": 200000}),
    Case("hccn-speed", "down", "Speed: -1 Mb/s\n", {}),
    Case("hccn-speed", "unknown", "Speed: Unknown!\n", {}),
    Case("hccn-fec", "on", "fec mode: rs FEC mode\n", {"mode": "rs FEC mode", "enabled": True}),
    Case("hccn-fec", "auto", "fec mode: auto FEC mode\n", {"mode": "auto FEC mode"}),
    Case("hccn-ip", "set", "ipaddr:192.0.2.17\nnetmask:255.255.255.0\n",
         {"ip": "192.0.2.17", "netmask": "255.255.255.0"}),
    Case("hccn-gateway", "set", "default gateway:192.0.2.1, Iface:eth10\n",
         {"gateway": "192.0.2.1", "interface": "eth10"}),
    Case("hccn-lldp", "a switch", "Chassis ID TLV\n\tMAC: 00:00:5e:00:53:01\nPort ID TLV\n\tIfname: 200GE1/0/17\n"
         "System Name TLV\n\tleaf-17\n", {"port": "200GE1/0/17", "system": "leaf-17"}),
    Case("hccn-lldp", "nobody there", "Port ID TLV\n\tIfname: \nSystem Name TLV\n\t\n", {}),
    Case(
        "hccn-ping",
        "one reply is lost",
        "device 3 PING 192.0.2.33\nrecv seq=0,time=0.071000ms\nrecv time out seq=1\n"
        "3 packets transmitted, 1 received, 66.67% packet loss\n",
        {"device": 3, "address": "192.0.2.33", "sent": 3, "received": 1, "loss_pct": 66.67,
         "replies": [{"seq": 0, "time_ms": 0.071}, {"seq": 1}]},
    ),
    Case(
        "hccn-dev-info",
        "ports of both kinds",
        "+---------+---------+-----------+-------------+\n"
        "| UDie ID | Port ID | Port Type | Link Status |\n"
        "+---------+---------+-----------+-------------+\n"
        "| 0       | 3       | UB        | UP          |\n"
        "| 1       | 8       | ETH       | DOWN        |\n"
        "+---------+---------+-----------+-------------+\n"
        "+----------------+\n| Interface Name |\n+----------------+\n| end1v0         |\n+----------------+\n",
        {"ports": [{"udie": 0, "port": 3, "kind": "UB", "up": True},
                   {"udie": 1, "port": 8, "kind": "ETH", "up": False}]},
    ),
    Case("hccn-ub-connect", "some ports",
         "link status : PARTIAL LINK\nport 1 : UP\nport 2 : DOWN\nport 3 : PARTIAL UP\n",
         {"status": "PARTIAL LINK", "ports": {1: "UP", 2: "DOWN", 3: "PARTIAL UP"}}),
    Case(
        "lspci",
        "an NPU and another device",
        "0000:c1:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802 (rev 20)\n"
        "3d:00.1 Ethernet controller [0200]: Example Inc. NIC [15b3:1017]\n",
        {"devices": [
            {"bus": "0000:C1:00.0", "kind": "Processing accelerators",
             "text": "Huawei Technologies Co., Ltd. Device d802", "vendor_id": "19e5", "device_id": "d802",
             "revision": "20", "generation": "910B"},
            {"bus": "0000:3D:00.1", "kind": "Ethernet controller [0200]", "text": "Example Inc. NIC [15b3:1017]",
             "vendor_id": "15b3", "device_id": "1017"},
        ]},
    ),
    Case("lspci", "numbers alone", "c2:00.0 1200: 19e5:d803 (rev 20)\n",
         {"devices": [{"bus": "0000:C2:00.0", "kind": "1200", "text": "19e5:d803", "vendor_id": "19e5",
                       "device_id": "d803", "revision": "20", "generation": "A3"}]}),
    Case(
        "kmsg",
        "every form of the log",
        "3,1009,51234567,-;[ascend] [ERROR] [drv_soft_fault] [f 1] <k:1:1> Heartbeat lost! (device_id=5; n=4).\n"
        "[   17.250000] usb 1-1: new device\n"
        "[Tue Feb  3 04:05:06 2026] Out of memory: Killed process 42 (python)\n"
        "Feb  3 04:05:06 node7 kernel: [  99.5] INFO: task dcmi:77 blocked for more than 120 seconds.\n"
        "Feb  3 04:05:06 node7 sshd[1]: not the kernel\n"
        "[ascend] [ERROR] [devdrv] [f 2] <k:1:1> Device is abnormal. (dev_id=5)\n",
        {"records": [
            {"time_s": 51.234567, "code": "40F84E00", "device": 5,
             "text": "[ascend] [ERROR] [drv_soft_fault] [f 1] <k:1:1> Heartbeat lost! (device_id=5; n=4)."},
            {"time_s": 17.25, "text": "usb 1-1: new device"},
            {"code": "NW-KMSG-OOM", "text": "Out of memory: Killed process 42 (python)"},
            {"time_s": 99.5, "code": "NW-KMSG-HUNG-TASK",
             "text": "INFO: task dcmi:77 blocked for more than 120 seconds."},
            {"code": "NW-KMSG-NPU", "text": "[ascend] [ERROR] [devdrv] [f 2] <k:1:1> Device is abnormal. (dev_id=5)"},
        ]},
    ),
]  # fmt: skip
