"""A simulated NPU host: `libdcmi.so`, `npu-smi` and `hccn_tool` over one state file, to try and to drill an agent
without hardware."""

from typing import TYPE_CHECKING

from console.lab.host.state import StateError

if TYPE_CHECKING:
    from console.lab.host.sim_host import SimHost

__all__ = ["SimHost", "StateError"]


def __getattr__(name: str) -> object:
    # The stand-in tools import this package at every call and need none of what builds a host: 60 ms of CPU less.
    if name == "SimHost":
        from console.lab.host.sim_host import SimHost

        return SimHost
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
