"""The reconciler as a real process, as its container runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.process import Process, ProcessFailed

SCRIPT = """
import sys
from pathlib import Path
from reconciler.config import load_config
from reconciler.main import run
sys.exit(run(load_config(Path(sys.argv[1]))))
"""
ROOT = Path(__file__).parents[2]
START_S = 40.0  # the official client's models take seconds to import on a busy machine


def write_config(path: Path, *, kubeconfig: Path, redis_url: str, extra: str = "") -> Path:
    """``extra`` comes first, where the keys outside every table stand."""
    path.write_text(
        f'{extra}\n[kube]\nkubeconfig = "{kubeconfig}"\n[redis]\nurl = "{redis_url}"\n[http]\nlisten = "127.0.0.1:0"\n'
    )
    return path


class Daemon(Process):
    """``crash_at`` names the point of a recovery at which it shall die, as if by SIGKILL."""

    def __init__(self, name: str, config: Path, crash_at: str = "") -> None:
        env = [f"PYTHONPATH={ROOT}", *([f"NPUWARDEN_CRASH_AT={crash_at}"] if crash_at else [])]
        argv = ["env", *env, sys.executable, "-c", SCRIPT, str(config)]
        super().__init__(name, argv, config.parent / f"{name}.log")

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @property
    def leads(self) -> bool:
        return "leads now" in self.said

    def terminate(self) -> tuple[int, float]:
        """SIGTERM; its exit code and how many seconds it took."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        return self.wait(timeout_s=15), time.monotonic() - began

    def wait(self, timeout_s: float) -> int:
        """Its exit code once it has ended by itself."""
        assert self._popen is not None
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired as exc:
            raise ProcessFailed(f"{self.name} did not end within {timeout_s:g} s{self.tail()}") from exc
