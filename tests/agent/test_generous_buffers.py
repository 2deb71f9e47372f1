"""Structures that a newer driver has made longer: what it writes behind the fields we know spoils nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from agent.sensors.gauges import celsius, ecc, hbm_celsius, power_w
from tests.agent.conftest import by_phy
from tests.agent.test_hostile_library import HOOKS, SOURCE, sensor_of

pytestmark = pytest.mark.slow

LONGER = """
#define LONG(p) memset(p, 0x5A, 1024)
OUT int dcmi_get_device_ecc_info(int card, int device, int type, unsigned *out) {
    LONG(out);
    unsigned fields[9] = {1, 2, 3, 4, 5 + card, 6, 7, 8, 9};
    memcpy(out, fields, sizeof(fields));
    return card == 3 ? -8020 : 0;
}
OUT int dcmi_get_device_temperature(int card, int device, int *out) { LONG(out); *out = 40 + card; return 0; }
OUT int dcmi_get_device_power_info(int card, int device, int *out) { LONG(out); *out = 1000 + card; return 0; }
OUT int dcmi_get_device_hbm_info(int card, int device, unsigned *out) {
    LONG(out);
    out[0] = 65536; out[1] = 0; out[6] = 50 + card;
    return 0;
}
OUT int dcmi_get_device_pcie_info_v2(int card, int device, unsigned *out) {
    LONG(out);
    out[4] = 0; out[5] = 0xC0 + card; out[6] = 0; out[7] = 0;
    return 0;
}
OUT int dcmi_get_device_die_v2(int card, int device, int type, unsigned *out) {
    LONG(out);
    for (int i = 0; i < 5; i++) out[i] = card;
    return 0;
}
OUT int dcmi_get_device_chip_info(int card, int device, char *out) {
    LONG(out);
    memset(out, 0, 100);
    strcpy(out + 32, "910B3");
    return 0;
}
OUT int dcmi_get_driver_version(char *out, unsigned size) { LONG(out); strcpy(out, "99.1"); return 0; }
"""


@pytest.fixture
def longer(tmp_path: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, target = tmp_path / "lib.c", tmp_path / "libdcmi.so"
    source.write_text("".join(f"#define {name}\n" for name in HOOKS) + SOURCE + LONGER)
    subprocess.run([str(compiler), "-shared", "-fPIC", "-w", "-o", str(target), str(source)], check=True)
    return target


async def test_what_stands_behind_the_known_fields_is_ignored(longer: Path) -> None:
    async with sensor_of(longer) as sensor:
        for _ in range(3):
            chips = by_phy(await sensor.poll())
            assert [(one.health, one.codes, one.chip.name) for one in chips.values()] == [(0, (), "910B3")] * 4
        assert chips[2].chip.pci == "0000:C2:00.0"
        assert chips[2].chip.die == "-".join(["00000002"] * 5)
        assert sensor.enumeration.driver == "99.1"
        counters = {one.chip.phy: ecc(one.words(0)) for one in await sensor.measure("ecc") or ()}
        heat = {
            one.chip.phy: (celsius(one.words(0)), power_w(one.words(1)), hbm_celsius(one.words(2)))
            for one in await sensor.measure("heat") or ()
        }
    assert {phy: one and (one.uncorrectable, one.isolated_pages) for phy, one in counters.items()} == {
        0: (5, 7),
        1: (6, 7),
        2: (7, 7),
        3: None,  # what a call that failed half-way has left behind is no value
    }
    assert heat == {phy: (40 + phy, (1000 + phy) / 10, 50 + phy) for phy in range(4)}
