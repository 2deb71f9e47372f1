"""One lab a directory: a second one would heal the first one's chips and point its kubeconfig elsewhere."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console.lab.children import RigError

LOCK = "lab.lock"


@contextmanager
def sole_lab(directory: Path) -> Iterator[None]:
    """Hold `directory` while the block runs, and make it if need be. Raises RigError when another lab runs there.

    The kernel frees the lock with the process that holds it, however that ends; children do not inherit it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a", encoding="ascii")
    except OSError as exc:
        raise RigError(f"{exc.filename}: {exc.strerror}: choose a directory that can be written") from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise RigError(
                f"{directory}: a lab runs in this directory already: use that one, end it with Ctrl-C, or name another"
                " directory with --dir"
            ) from exc
        yield
