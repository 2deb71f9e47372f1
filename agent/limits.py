"""The `[probes.<name>]` tables of agent.toml: from which value on a probe has found something.

docs/probes.md explains each. The defaults are wide on purpose: a healthy host of any generation stays below them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Window = Annotated[float, Meta(ge=1, le=864000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Percent = Annotated[float, Meta(gt=0, le=100)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all tables."""


class Kmsg(Limits, frozen=True):
    hold_s: Window = 600.0
    """A kernel message has no end of its own: so long after the last one the finding is over."""


class HostDisk(Limits, frozen=True):
    used_pct: Percent = 95.0


class HostMemory(Limits, frozen=True):
    available_pct: Percent = 2.0


class NicCarrier(Limits, frozen=True):
    flaps: Count = 3
    window_s: Window = 3600.0


class Pcie(Limits, frozen=True):
    nonfatal: Count = 10
    """So many uncorrectable non-fatal errors of one chip within the window; of fatal ones a single one is enough."""
    window_s: Window = 3600.0


class Kubelet(Limits, frozen=True):
    url: str = "http://127.0.0.1:10248/healthz"
    timeout_s: Annotated[float, Meta(ge=0.1, le=10)] = 3.0
    looks: Count = 3


class Runtime(Limits, frozen=True):
    timeout_s: Annotated[float, Meta(ge=0.1, le=10)] = 3.0
    looks: Count = 3


class StaleProcess(Limits, frozen=True):
    looks: Count = 2


class ChipHang(Limits, frozen=True):
    """Defaults are those of the vendor's hangDetectionConfig.json; below all of them a chip is idle."""

    aicore_pct: Percent = 5.0
    hbm_pct: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """By how much the share of HBM in use may rise within a round."""
    packets_per_min: Count = 100
    cpu_s_per_min: Annotated[float, Meta(gt=0)] = 5.0
    """CPU time of the processes that hold the chip, together."""
    looks: Count = 5


class HbmEcc(Limits, frozen=True):
    isolated_pages: Count = 64
    """The vendor's own number for a chip to be separated (80E18402)."""
    window_s: Window = 3600.0


class TemperaturePower(Limits, frozen=True):
    chip_celsius: Annotated[int, Meta(ge=30, le=150)] = 105
    hbm_celsius: Annotated[int, Meta(ge=30, le=150)] = 105
    power_w: Annotated[float, Meta(gt=0)] = 1000.0
    looks: Count = 2


class Hccs(Limits, frozen=True):
    looks: Count = 2
    crc_errors: Count = 100
    window_s: Window = 3600.0


class LinkFlap(Limits, frozen=True):
    downs: Annotated[int, Meta(ge=1, le=5)] = 3
    """The tool shows the ten newest records, so five downs at most."""
    window_s: Window = 3600.0


class NetHealth(Limits, frozen=True):
    looks: Count = 2


class Optical(Limits, frozen=True):
    looks: Count = 2


class UbPorts(Limits, frozen=True):
    looks: Count = 2


class RocePorts(Limits, frozen=True):
    looks: Count = 2


class PortErrors(Limits, frozen=True):
    errors: Count = 1000
    """So many bad packets of one port within the window; the ones that are sent again and again cost the most."""
    window_s: Window = 3600.0


class Peers(Limits, frozen=True):
    looks: Count = 2


class ProbeLimits(Limits, frozen=True):
    """One table for each probe that has limits, under the probe's name."""

    kmsg: Kmsg = Kmsg()
    host_disk: HostDisk = HostDisk()
    host_memory: HostMemory = HostMemory()
    nic_carrier: NicCarrier = NicCarrier()
    pcie: Pcie = Pcie()
    kubelet: Kubelet = Kubelet()
    stale_process: StaleProcess = StaleProcess()
    chip_hang: ChipHang = ChipHang()
    hbm_ecc: HbmEcc = HbmEcc()
    temperature_power: TemperaturePower = TemperaturePower()
    hccs: Hccs = Hccs()
    link_flap: LinkFlap = LinkFlap()
    net_health: NetHealth = NetHealth()
    optical: Optical = Optical()
    peers: Peers = Peers()
    ub_ports: UbPorts = UbPorts()
    roce_ports: RocePorts = RocePorts()
    port_errors: PortErrors = PortErrors()
    runtime: Runtime = Runtime()
