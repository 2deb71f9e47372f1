"""Compiles the stand-in `libdcmi.so` from its C sources, once for each version of them.

The result is cached under the user's cache directory, keyed by sources, flags and machine, so that a host is
created in milliseconds after the first one.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).with_name("dcmi")
COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
_LIBRARIES = ("-ldl", "-lm")
_TIMEOUT_S = 120


class BuildError(Exception):
    """The compiler refused the library; the message holds what it said."""


def library(missing_symbols: Iterable[str] = ()) -> Path | None:
    """The compiled library without `missing_symbols`, or None on a machine without a C compiler.

    Raises BuildError when there is a compiler and it fails.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return None
    # A renamed function is missing under its name, which is all that a caller can see.
    renames = [f"-D{symbol}=absent_{symbol}" for symbol in sorted(set(missing_symbols))]
    target = _cache() / f"libdcmi-{_key(renames)}.so"
    if not target.exists():
        _compile([compiler, *_FLAGS, *renames], target)
    return target


def _key(renames: list[str]) -> str:
    digest = hashlib.sha256(" ".join([platform.machine(), *_FLAGS, *_LIBRARIES, *renames]).encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:20]


def _cache() -> Path:
    wanted = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npu-warden"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        wanted = Path(tempfile.gettempdir()) / f"npu-warden-{os.getuid()}"
        wanted.mkdir(mode=0o700, exist_ok=True)
    return wanted


def _compile(command: list[str], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        product = Path(scratch) / target.name
        sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
        try:
            done = subprocess.run(
                [*command, "-o", str(product), *sources, *_LIBRARIES],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise BuildError(f"{command[0]} did not finish within {_TIMEOUT_S} s") from exc
        if done.returncode != 0:
            raise BuildError(f"{command[0]} cannot build libdcmi.so:\n{done.stderr}")
        os.replace(product, target)
