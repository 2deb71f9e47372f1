"""What is understood of npu-smi's text: widths and columns of four generations, failed getters, errors."""

from pathlib import Path

import pytest

from agent.sensors import npu_smi_parse as parse
from agent.sensors.npu_smi_parse import ChipHealth, MapRow, TableChip

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


def chip(**fields: object) -> TableChip:
    made = TableChip()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("text", "version", "chips"),
    [
        pytest.param(
            TABLE_910B_23,
            "23.0.4",
            [
                chip(
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
                chip(card=6, chip=0, name="910B2", health="OK", bus="0000:42:00.0", aicore_pct=0),
            ],
            id="910B, narrow; what failed getters print as 0 is missing; processes are no chips",
        ),
        pytest.param(
            TABLE_A3_26,
            "26.0.rc2",
            [
                chip(
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
                chip(
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
                chip(
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
                chip(
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
                chip(
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
                chip(chip=0, bus="0000:C2:00.0", aicore_pct=0, hbm_used_mb=3445, hbm_total_mb=65536),
            ],
            id="a chip that is not ready has no first row",
        ),
    ],
)
def test_table(text: str, version: str, chips: list[TableChip]) -> None:
    table = parse.parse_info(text)
    assert table.version == version
    assert list(table.chips) == chips


def test_text_that_is_no_table_is_an_error() -> None:
    with pytest.raises(parse.ParseError, match="no table"):
        parse.parse_info("Segmentation fault")


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        pytest.param(
            ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"],
            [["2", "0", "2", "Ascend 910B3"], ["2", "1", "-", "Mcu"], ["-1", "0", "-", "Mcu"]],
            [MapRow(2, 0, 2, None, None, "Ascend 910B3")],
            id="4 columns; a management controller and an absent card are left out",
        ),
        pytest.param(
            ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"],
            [["4", "1", "8", "9", "Ascend910"]],
            [MapRow(4, 1, 8, 9, None, "Ascend910")],
            id="5 columns, A3: a lost card has shifted the logic ids",
        ),
        pytest.param(
            ["NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"],
            [["0", "3", "1", "5", "950PR"]],
            [MapRow(0, 1, None, 5, 3, "950PR")],
            id="950",
        ),
    ],
)
def test_map(header: list[str], rows: list[list[str]], expected: list[MapRow]) -> None:
    text = "\n".join("\t" + "".join(f"{word:<30} " for word in words) for words in [header, *rows])
    assert list(parse.parse_map(text)) == expected


def test_map_without_header_is_an_error() -> None:
    with pytest.raises(parse.ParseError, match="no header"):
        parse.parse_map("busy\n")


def test_list_keeps_the_cards_that_are_absent() -> None:
    text = "\tTotal Count                    : 2\n\n\tNPU ID    : -1\n\tChip Count  : 0\n\n\tNPU ID    : 5\n"
    assert parse.parse_list(text) == (-1, 5)


HEALTH = [
    pytest.param("\tHealth Status  : OK\n\tError Code   : NA\n", ChipHealth("OK", ()), id="healthy, old label"),
    pytest.param("\tNPU ID   : 0\n\tHealth  : OK\n\tError Code   : NA\n", ChipHealth("OK", ()), id="healthy, 950"),
    pytest.param(
        "\tHealth Status                  : Alarm\n\tError Code                     : a4025021 8C03A000\n"
        "\tError Information              : one\n\n\t                               : Error Code of another kind\n",
        ChipHealth("Alarm", ("A4025021", "8C03A000")),
        id="two codes on one line, their texts on several",
    ),
    pytest.param("\tHealth  : UNKNOWN\n", ChipHealth("UNKNOWN", None), id="no code line"),
    pytest.param("\tHealth  : OK\n\tError Code  : ??\n", ChipHealth("OK", None), id="codes that are none"),
]


@pytest.mark.parametrize(("text", "expected"), HEALTH)
def test_health(text: str, expected: ChipHealth) -> None:
    assert parse.parse_health(text) == expected


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
    with pytest.raises(parse.ToolSays) as told:
        parse.check(text, exit_code)
    assert told.value.ret == ret
    assert str(told.value)


def test_a_warning_behind_a_good_answer_is_no_error() -> None:
    parse.check(TABLE_910B_23, 0)


def samples(shared_dir: Path, pattern: str) -> list[Path]:
    found = sorted(shared_dir.glob(f"facts/samples*/{pattern}"))
    assert found
    return found


def body(path: Path) -> str:
    """A capture without the line that says where it is from."""
    text = path.read_text(errors="replace")
    return text.partition("\n")[2] if text.startswith("#") else text


def test_every_captured_table_gives_whole_chips(shared_dir: Path) -> None:
    for path in samples(shared_dir, "npu-smi-*info-*.txt"):
        text = body(path)
        if "| NPU" not in text or "info-l-" in path.name or "info-m-" in path.name:
            continue
        for one in parse.parse_info(text).chips:
            assert one.card is not None or one.bus is not None, (path.name, one)
            assert one.health in {None, "OK", "Warning", "Alarm", "Critical", "UNKNOWN"}, (path.name, one)
            assert one.hbm_total_mb != 0, path.name
            assert one.power_w != 0, path.name


def test_every_captured_map_list_and_health_is_read_or_refused(shared_dir: Path) -> None:
    read = 0
    for path in samples(shared_dir, "npu-smi-*.txt"):
        text = body(path)
        exit_code = 0 if "exit code 0" in path.read_text(errors="replace").partition("\n")[0] else 1
        if "-m-" in path.name:
            if exit_code == 0 or "samples/" in str(path):
                assert all(row.card >= 0 for row in parse.parse_map(text)), path.name
                read += 1
        elif "info-l-" in path.name and exit_code == 0:
            assert parse.parse_list(text), path.name
            read += 1
        elif "t_health" in path.name and "-c0" in path.name and exit_code == 0:
            health = parse.parse_health(text)
            assert health.health in parse.HEALTH_WORDS, path.name
            assert health.codes is not None, path.name
            read += 1
    assert read > 10
