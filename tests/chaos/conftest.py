"""What the chaos tests share: the real control plane as the integration tests furnish it, and a wrong clock."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import controllers as controllers
from tests.integration.conftest import leader as leader
from tests.integration.conftest import reconciler_kubeconfig as reconciler_kubeconfig
from tests.integration.conftest import rig as rig

SKEW = Path(__file__).with_name("skew.c")


@pytest.fixture
def wrong_clock(tmp_path: Path) -> Path:
    """A library that shifts the wall clock of the process it is preloaded into (skew.c)."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "skew.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SKEW)], check=True, timeout=60)
    return library
