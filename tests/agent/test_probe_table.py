"""docs/probes.md tells of exactly the probes, limits and codes that there are."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agent.probes
from agent.config import AgentConfig, load
from agent.limits import ProbeLimits
from shared import catalog
from shared.config import ConfigError
from shared.model import FaultLevel

ROOT = Path(__file__).parents[2]
ROWS = {
    cells[1].strip(" `"): cells
    for line in (ROOT / "docs/probes.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `") and len(cells := line.split("|")) == 9
}
OURS = {row["code"] for row in tomllib.loads((ROOT / "shared/catalog/probes.toml").read_text(encoding="utf-8"))["rows"]}


def test_the_table_has_every_probe_of_the_package_and_no_other() -> None:
    files = {path.stem for path in Path(agent.probes.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(ROWS) == files


@pytest.mark.parametrize("probe", sorted(msgspec.structs.asdict(ProbeLimits())))
def test_the_table_has_every_limit_with_its_default(probe: str) -> None:
    limits: dict[str, Any] = msgspec.structs.asdict(getattr(ProbeLimits(), probe))
    told = re.findall(r"`(\w+)` = ([^,|\s]+)", ROWS[probe][6])
    defaults = {name: f"{value:g}" if isinstance(value, float | int) else str(value) for name, value in limits.items()}
    assert dict(told) == defaults


def test_the_table_has_every_code_of_ours_once() -> None:
    told = [code for cells in ROWS.values() for code in re.findall(r"NW-[A-Z-]+", cells[7])]
    assert sorted(told) == sorted(OURS | {"NW-MONITOR-BLIND"})


def test_no_probe_of_ours_restarts_pods() -> None:
    rows = catalog.load().rows()
    harmless = {FaultLevel.NOT_HANDLE, FaultLevel.SUB_HEALTH, FaultLevel.PRE_SEPARATE_NPU}
    assert {rows[code].level for code in OURS} <= harmless


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[probes.hbm_ecc]\nisolated_rows = 3\n", "isolated_rows"),
        ("[probes.hbm]\n", "hbm"),
        ("[probes.host_disk]\nused_pct = 0\n", "used_pct"),
        ("[probes.link_flap]\ndowns = 6\n", "downs"),
    ],
)
def test_a_wrong_limit_is_refused_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load(path)


def test_limits_are_taken_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text("[probes.hbm_ecc]\nisolated_pages = 32\n")
    config: AgentConfig = load(path)
    assert (config.probes.hbm_ecc.isolated_pages, config.probes.hbm_ecc.window_s) == (32, 3600)
