"""A simulated NPU host in a directory: its state file, library, tools and PCI tree, and what can be done to it."""

import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from console.lab.host import build, defaults, inject, sysfs
from console.lab.host.driver import STATE_VARIABLE
from console.lab.host.install import install
from console.lab.host.state import Generation, HostState, load, locked, save

VIOLATIONS_VARIABLE = "NPU_SIM_VIOLATIONS"


class SimHost:
    """One host. Every change is one locked replacement of the state file, so that processes may share it.

    `library` is None where no C compiler is installed: such a host is known by its tools alone.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.state_path = self.directory / "state.json"
        self.npu_smi = self.directory / "bin" / "npu-smi"
        self.hccn_tool = self.directory / "bin" / "hccn_tool"
        self.sysfs = self.directory / "sys"
        self.violations = self.directory / "violations"

    @classmethod
    def create(cls, directory: Path, generation: Generation = "910B", chips: int = 8) -> "SimHost":
        """A healthy host, in a directory that is made if need be. Raises StateError for an impossible machine and
        BuildError when the library does not compile."""
        host = cls(directory)
        machine = zlib.crc32(str(host.directory).encode())
        state = defaults.healthy(generation, chips, int(time.time()), machine=machine)
        host.directory.mkdir(parents=True, exist_ok=True)
        save(host.state_path, state)
        host._install(state)
        return host

    @classmethod
    def open(cls, directory: Path) -> "SimHost":
        """The host that was created there. Raises StateError when there is none, or its state file is unreadable."""
        host = cls(directory)
        host.state()
        return host

    @property
    def library(self) -> Path | None:
        """The compiled libdcmi.so of this host."""
        path = self.directory / "lib" / "libdcmi.so"
        return path if path.exists() else None

    def env(self) -> dict[str, str]:
        """What a process needs in its environment to meet this host, and for the library to record calls from two
        threads at once in `violations`."""
        return {STATE_VARIABLE: str(self.state_path), VIOLATIONS_VARIABLE: str(self.violations)}

    def state(self) -> HostState:
        """The state of this moment. Raises StateError."""
        return load(self.state_path)

    def change(self, transition: Callable[[HostState], HostState]) -> None:
        """Replace the state by what `transition` makes of it. Raises StateError, and then changes nothing."""
        with locked(self.state_path):
            state = transition(self.state())
            save(self.state_path, state)
            sysfs.sync(self.sysfs, state)

    def occur(self, phy: int, code: str, severity: int = 3, event: bool = True) -> None:
        """A fault begins on the chip; event False is a lost event, which only polling can find."""
        self.change(lambda state: inject.occur(state, phy, code, severity, _now_ms(), announce=event))

    def recover(self, phy: int, code: str, event: bool = True) -> None:
        """The fault ends."""
        self.change(lambda state: inject.recover(state, phy, code, _now_ms(), announce=event))

    def once(self, phy: int, code: str, severity: int = 0) -> None:
        """A one-off notice, which leaves no trace in the code list."""
        self.change(lambda state: inject.once(state, phy, code, severity, _now_ms()))

    def error(self, phy: int, ret: int) -> None:
        """Every reading of the chip fails with this return code."""
        self.change(lambda state: inject.error(state, phy, ret))

    def hang(self, phy: int | None, function: str | None = None) -> None:
        """Calls never return: of one chip (its health, unless another function is named), or with None of the
        whole driver (every reading and start, and both tools, unless a function is named)."""
        self.change(lambda state: inject.hang(state, phy, function))

    def clear(self, phy: int | None = None) -> None:
        """End errors and hangs of the chip, or with None of everything."""
        self.change(lambda state: inject.clear(state, phy))

    def heal(self, phy: int) -> None:
        """Make the chip as new: all its codes recover, its errors and hangs end, it is present and ready."""
        self.change(lambda state: inject.heal(state, phy, _now_ms()))

    def drop(self, phy: int) -> None:
        """The chip falls off the bus: new processes do not find it, running ones get errors from it."""
        self.change(lambda state: inject.drop(state, phy))

    def back(self, phy: int) -> None:
        """The chip is on the bus again."""
        self.change(lambda state: inject.back(state, phy))

    def link(self, phy: int, up: bool) -> None:
        """The RoCE link of the chip goes up or down."""
        self.change(lambda state: inject.link(state, phy, up, int(time.time())))

    def unreachable(self, phy: int | None, *addresses: str) -> None:
        """The chip's port (None: every port) gets no reply from these addresses, `*` for all; none given: from all
        again."""
        self.change(lambda state: inject.unreachable(state, phy, addresses))

    def hold(self, phy: int, *pids: int, aicore_pct: int = 0) -> None:
        """These processes of this machine hold the chip, whose AICore is used by so much; none: it is free."""
        self.change(lambda state: inject.hold(state, phy, pids, aicore_pct))

    def events(self, enabled: bool) -> None:
        """Whether fault events can be subscribed to; False also ends running subscriptions without a word."""
        self.change(lambda state: inject.events(state, enabled))

    def missing_symbols(self, names: Iterable[str]) -> None:
        """Install a library without these functions, as an older driver has; processes that start now load it."""
        wanted = sorted(names)
        self.change(lambda state: replace(state, faults=replace(state.faults, missing_symbols=wanted)))
        self._install(self.state())

    def _install(self, state: HostState) -> None:
        install(self.npu_smi.parent, self.state_path)
        sysfs.sync(self.sysfs, state)
        compiled = build.library(state.faults.missing_symbols)
        if compiled is not None:
            target = self.directory / "lib" / "libdcmi.so"
            target.parent.mkdir(exist_ok=True)
            fresh = target.with_suffix(".new")
            shutil.copy(compiled, fresh)
            os.replace(fresh, target)  # processes that have the old one loaded keep it


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
