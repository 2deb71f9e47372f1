"""What is understood of npu-smi's text: widths and columns of four generations, failed getters, errors."""

import pytest

from agent.decode import npu_smi_chip, npu_smi_ids, npu_smi_says, npu_smi_table
from agent.decode.records import Chip
from agent.decode.text import ParseError

TABLE_910B_23 = """\
+-----------------------------------------------------------------------------------+
| npu-smi 23.0.4                   Version: 23.0.4                                  |
+----------------------+---------------+--------------------------------------------+
| NPU   Name           | Health        | Power(W)  Temp(C)      Hugepages-Usage(page)|
| Chip                 | Bus-Id        | AICore(%) Memory-Usage(MB)  HBM-Usage(MB)  |
+======================+===============+============================================+
| 0     910B2          | Alarm         | 91.5      41           0   / 0             |
| 0                    | 0000:C1:00.0  | 7         0    / 0     3400/ 65536         |
+======================+===============+============================================+
| 6     910B2          | OK            | 0.0       0            0   / 0             |
| 0                    | 0000:42:00.0  | 0         0    / 0     0   / 0             |
+======================+===============+============================================+
| NPU     Chip         | Process id    | Process name           | Process memory(MB)|
+======================+===============+============================================+
| 0       0            | 4711          | python                 | 1200              |
+======================+===============+============================================+
[WARNING]The driver package may not be completely installed, which may cause function abnormal.
"""

TABLE_A3_26 = """\
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                                    |
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 3     Ascend910           | OK            | 180.3                41                      0    / 0                |
| 0     6                   | 0000:95:00.0  | 2                    0    / 0                3100 / 65536            |
+------------------------------------------------------------------------------------------------------------------+
| 3     Ascend910           | UNKNOWN       | -                    40                      0    / 0                |
| 1     7                   | 0000:97:00.0  | 2                    0    / 0                2900 / 65536            |
"""

TABLE_310P = """\
| npu-smi 25.0.1                                   Version: 25.0.1                                       |
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
| 32768   310P3                 | Warning         | NA           50                5     / 5             |
| 0       2                     | NA              | NA           1900/ 21527                             |
"""

TABLE_950 = """\
| npu-smi 26.1                            Version: 26.1                                           |
| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |
| 4      | 950PR            | Critical      | 210.0       60                0     / 0             |
|        |                  | 0000:A1:00.0  | 12          0    / 0          4400  / 131072        |
"""

TABLE_NOT_READY = """\
| npu-smi 26.1                     Version: 26.1                                                  |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)         |
| 0     910B3               | OK            | 93.2        45                0     / 0             |
| 0                         | 0000:C1:00.0  | 38          0    / 0          60156 / 65536         |
+===========================+===============+=====================================================+
| 0                         | 0000:C2:00.0  | 0           0    / 0          3445  / 65536         |
"""


@pytest.mark.parametrize(
    ("text", "version", "chips"),
    [
        pytest.param(
            TABLE_910B_23,
            "23.0.4",
            [
                Chip(
                    card=0,
                    chip=0,
                    name="910B2",
                    health="Alarm",
                    power_w=91.5,
                    temp_c=41,
                    bus="0000:C1:00.0",
                    aicore_pct=7,
                    hbm_used_mb=3400,
                    hbm_total_mb=65536,
                ),
                Chip(card=6, chip=0, name="910B2", health="OK", bus="0000:42:00.0"),
            ],
            id="910B, narrow; what failed getters print as 0 is missing; processes are no chips",
        ),
        pytest.param(
            TABLE_A3_26,
            "26.0.rc2",
            [
                Chip(
                    card=3,
                    chip=0,
                    phy=6,
                    name="Ascend910",
                    health="OK",
                    power_w=180.3,
                    temp_c=41,
                    bus="0000:95:00.0",
                    aicore_pct=2,
                    hbm_used_mb=3100,
                    hbm_total_mb=65536,
                ),
                Chip(
                    card=3,
                    chip=1,
                    phy=7,
                    name="Ascend910",
                    health="UNKNOWN",
                    temp_c=40,
                    bus="0000:97:00.0",
                    aicore_pct=2,
                    hbm_used_mb=2900,
                    hbm_total_mb=65536,
                ),
            ],
            id="A3, wide, two chips of one card",
        ),
        pytest.param(
            TABLE_310P,
            "25.0.1",
            [
                Chip(
                    card=32768,
                    chip=0,
                    device=2,
                    name="310P3",
                    health="Warning",
                    temp_c=50,
                    memory_used_mb=1900,
                    memory_total_mb=21527,
                )
            ],
            id="310P, sparse card ids, no bus, no HBM",
        ),
        pytest.param(
            TABLE_950,
            "26.1",
            [
                Chip(
                    card=4,
                    name="950PR",
                    health="Critical",
                    power_w=210.0,
                    temp_c=60,
                    bus="0000:A1:00.0",
                    aicore_pct=12,
                    hbm_used_mb=4400,
                    hbm_total_mb=131072,
                )
            ],
            id="950, card and name in cells of their own",
        ),
        pytest.param(
            TABLE_NOT_READY,
            "26.1",
            [
                Chip(
                    card=0,
                    chip=0,
                    name="910B3",
                    health="OK",
                    power_w=93.2,
                    temp_c=45,
                    bus="0000:C1:00.0",
                    aicore_pct=38,
                    hbm_used_mb=60156,
                    hbm_total_mb=65536,
                ),
                Chip(chip=0, bus="0000:C2:00.0", aicore_pct=0, hbm_used_mb=3445, hbm_total_mb=65536),
            ],
            id="a chip that is not ready has no first row",
        ),
    ],
)
def test_table(text: str, version: str, chips: list[Chip]) -> None:
    table = npu_smi_table.parse(tuple(text.splitlines()))
    assert table.version == version
    assert list(table.chips) == chips


def test_text_that_is_no_table_is_an_error() -> None:
    with pytest.raises(ParseError, match="no table"):
        npu_smi_table.parse(("Segmentation fault",))


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        pytest.param(
            ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"],
            [["2", "0", "2", "Ascend 910B3"], ["2", "1", "-", "Mcu"], ["-1", "0", "-", "Mcu"]],
            [Chip(card=2, chip=0, logic=2, name="Ascend 910B3")],
            id="4 columns; a management controller and an absent card are left out",
        ),
        pytest.param(
            ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"],
            [["4", "1", "8", "9", "Ascend910"]],
            [Chip(card=4, chip=1, logic=8, phy=9, name="Ascend910")],
            id="5 columns, A3: a lost card has shifted the logic ids",
        ),
        pytest.param(
            ["NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"],
            [["0", "3", "1", "5", "950PR"]],
            [Chip(card=0, chip=1, phy=5, slot=3, name="950PR")],
            id="950",
        ),
    ],
)
def test_map(header: list[str], rows: list[list[str]], expected: list[Chip]) -> None:
    text = "\n".join("\t" + "".join(f"{word:<30} " for word in words) for words in [header, *rows])
    assert npu_smi_ids.parse_map(text.splitlines()).chips == expected


def test_map_without_header_is_an_error() -> None:
    with pytest.raises(ParseError, match="no header"):
        npu_smi_ids.parse_map(["busy"])


def test_list_keeps_the_cards_that_are_absent() -> None:
    text = "\tTotal Count                    : 2\n\n\tNPU ID    : -1\n\tChip Count  : 0\n\n\tNPU ID    : 5\n"
    assert [card.card for card in npu_smi_ids.parse_list(text.splitlines()).chips] == [None, 5]


HEALTH = [
    pytest.param("\tHealth Status  : OK\n\tError Code   : NA\n", ("OK", []), id="healthy, old label"),
    pytest.param("\tNPU ID   : 0\n\tHealth  : OK\n\tError Code   : NA\n", ("OK", []), id="healthy, 950"),
    pytest.param(
        "\tHealth Status                  : Alarm\n\tError Code                     : a4025021 8C03A000\n"
        "\tError Information              : one\n\n\t                               : Error Code of another kind\n",
        ("Alarm", ["A4025021", "8C03A000"]),
        id="two codes on one line, their texts on several",
    ),
    pytest.param("\tHealth  : UNKNOWN\n", ("UNKNOWN", None), id="no code line"),
    pytest.param("\tHealth  : OK\n\tError Code  : ??\n", ("OK", None), id="codes that are none"),
]


@pytest.mark.parametrize(("text", "expected"), HEALTH)
def test_health(text: str, expected: tuple[str, list[str] | None]) -> None:
    (chip,) = npu_smi_chip.parse_health(text.splitlines()).chips
    assert (chip.health, chip.codes) == expected


ERRORS = [
    pytest.param("dcmi module initialize failed. ret is -8005\n", 187, -8005, id="no driver"),
    pytest.param("noise (ret=4)\ndcmi module initialize failed. ret is -8005\n", 187, -8005, id="behind noise"),
    pytest.param(
        "dcmi model initialized failed, because the device is used. ret is -8020\n", 172, -8020, id="occupied"
    ),
    pytest.param("Invalid card id.\nError parameter of -i\nUsage: npu-smi info\n", 215, -8008, id="no such card"),
    pytest.param('Failed to query "health" result.\n', 207, None, id="a failure without a number"),
    pytest.param("", 1, None, id="nothing at all"),
]


@pytest.mark.parametrize(("text", "exit_code", "ret"), ERRORS)
def test_error_texts(text: str, exit_code: int, ret: int | None) -> None:
    with pytest.raises(npu_smi_says.ToolSays) as told:
        npu_smi_says.check(text, exit_code)
    assert told.value.ret == ret
    assert str(told.value)


def test_a_warning_behind_a_good_answer_is_no_error() -> None:
    npu_smi_says.check(TABLE_910B_23, 0)
