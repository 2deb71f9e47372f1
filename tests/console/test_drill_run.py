"""`npu-warden drill run` against a real API and API server: what is said before it has ended."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from tests.console.conftest import Run

NPU_WARDEN = Path(sys.executable).with_name("npu-warden")


def test_a_node_that_is_not_there_is_all_that_is_said(run: Run, url: str, kubeconfig: str) -> None:
    result = run("drill", "run", "chip-fault", "--node", "zulu", "--url", url, "--kubeconfig", kubeconfig)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: there is no node zulu (404 NotFound")


def test_on_a_terminal_it_says_that_it_has_begun_and_until_when(url: str, kubeconfig: str) -> None:
    terminal, side = pty.openpty()
    os.set_blocking(terminal, False)
    words = ["run", "chip-fault", "--node", "alpha", "--ttl", "1s", "--url", url, "--kubeconfig", kubeconfig]
    try:
        done = subprocess.run(
            [NPU_WARDEN, "drill", *words], stdout=subprocess.PIPE, stderr=side, timeout=60, check=False
        )
        said = os.read(terminal, 4096).decode()
    finally:
        os.close(terminal)
        os.close(side)
    assert re.match(r"drill \S+-chip-fault-\S+ has begun on alpha and ends by \S+Z; Ctrl-C ends it\r\n", said), said
    assert (done.returncode, "its time ran out before the fault was seen" in done.stdout.decode()) == (1, True)


def test_on_a_pipe_the_report_is_all(run: Run, url: str, kubeconfig: str) -> None:
    words = ["chip-fault", "--node", "alpha", "--ttl", "1s", "--url", url, "--kubeconfig", kubeconfig]
    result = run("drill", "run", *words)
    assert (result.exit_code, result.stderr) == (1, "")
    assert "its time ran out" in result.stdout
