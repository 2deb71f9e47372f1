"""Puts `npu-smi` and `hccn_tool` into a directory, as small scripts that run the stand-ins with this interpreter."""

import shlex
import sys
from pathlib import Path

from console.lab.host.driver import STATE_VARIABLE

_ROOT = Path(__file__).parents[3]  # where `console` is imported from
_TOOLS = {"npu-smi": "console.lab.host.npu_smi", "hccn_tool": "console.lab.host.hccn_tool"}
# msgspec imports typing_extensions where it is there, and needs nothing of it: a call costs a quarter less without.
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.modules['typing_extensions'] = None; "
_SCRIPT = """\
#!/bin/sh
: "${{{variable}:={state}}}"
export {variable}
exec {python} -c {run} {root} "$@"
"""


def install(directory: Path, state: Path) -> None:
    """Write both tools. They use `state` unless NPU_SIM_STATE names another file, so a caller that cleans its
    environment still asks this host."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, module in _TOOLS.items():
        script = _SCRIPT.format(
            variable=STATE_VARIABLE,
            state=str(state).replace('"', r"\""),
            python=shlex.quote(sys.executable),
            run=shlex.quote(f"{_RUN}from {module} import main; main()"),
            root=shlex.quote(str(_ROOT)),
        )
        path = directory / name
        path.write_text(script)
        path.chmod(0o755)
