"""The lock of a lab's directory: refused while it is held, free again however its holder ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from console.lab.children import RigError
from console.lab.sole import sole_lab

HOLDER = """
import sys
from pathlib import Path
from console.lab.sole import sole_lab
with sole_lab(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_holder_that_is_killed_holds_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RigError, match="a lab runs in this directory already"), sole_lab(tmp_path):
            pass
        holder.kill()
        holder.wait(20)
    with sole_lab(tmp_path):
        pass
