"""scripts/run_tests.sh: both halves speak, a few failures get a second chance by themselves, others fail the run."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "scripts" / "run_tests.sh"
ONCE = """
import pathlib, pytest
@pytest.mark.parametrize("n", range({tests}))
{mark}def test_once(n):
    seen = pathlib.Path(__file__).with_suffix(f".{{n}}")
    ran, _ = seen.exists(), seen.touch()
    assert ran or n >= {unstable}
"""
CLUSTER = "@pytest.mark.cluster\n"
NEVER = "def test_never():\n    assert False\n"
SKIPPED_ALONE = """
import pathlib, pytest
def test_skipped_alone():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    ran, _ = seen.exists(), seen.touch()
    if ran:
        pytest.skip("not by itself")
    assert False
"""
HOLDS = "def test_holds():\n    assert True\n"


def run(tmp_path: Path, cluster: str, rest: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    cluster: the other half\n")
    (tmp_path / "test_cluster.py").write_text(cluster)
    (tmp_path / "test_rest.py").write_text(rest)
    there = ["-q", "-p", "no:asyncio", f"--rootdir={tmp_path}", "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    ours = [str(SCRIPT), sys.executable, "-m", "pytest", *there]
    return subprocess.run(ours, capture_output=True, text=True, timeout=100, check=False)


def unstable(count: int, *, cluster: bool) -> str:
    return ONCE.format(tests=count + 1, unstable=count, mark=CLUSTER if cluster else "")


HOLDS_THERE = "import pytest\n@pytest.mark.cluster\n" + HOLDS


@pytest.mark.parametrize(
    ("cluster", "rest", "passes", "says"),
    [
        pytest.param(HOLDS_THERE, HOLDS, True, "1 passed, 1 deselected", id="all is well"),
        pytest.param(unstable(2, cluster=True), HOLDS, True, "test_cluster.py::test_once[1]", id="few of the cluster"),
        pytest.param(unstable(3, cluster=True), unstable(2, cluster=False), True, "UNSTABLE", id="few of both"),
        pytest.param(unstable(3, cluster=True), unstable(3, cluster=False), False, "3 failed", id="too many"),
        pytest.param(HOLDS_THERE, NEVER, False, "run once more", id="fails again"),
        pytest.param(HOLDS_THERE, SKIPPED_ALONE, False, "that is not passed", id="skipped by itself"),
        pytest.param(HOLDS_THERE, "import nothing_like_it\n", False, "nothing_like_it", id="no matter of tests"),
        pytest.param("import nothing_like_it\n", HOLDS, False, "nothing_like_it", id="nor in the other half"),
    ],
)
def test_what_a_run_ends_with(tmp_path: Path, cluster: str, rest: str, passes: bool, says: str) -> None:
    ended = run(tmp_path, cluster, rest)
    assert (ended.returncode == 0) is passes, ended.stdout + ended.stderr
    assert says in ended.stdout
