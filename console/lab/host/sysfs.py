"""The PCI part of a sysfs tree that follows the simulated host: a dropped chip has no directory."""

import shutil
from pathlib import Path

from console.lab.host.chip import Device
from console.lab.host.state import HostState

_CLASS = "0x120000"  # processing accelerator
_SPEED = "16.0 GT/s PCIe"
_WIDTH = "16"


def sync(root: Path, state: HostState) -> None:
    """Make `root`/bus/pci/devices show exactly the chips that are on the bus."""
    devices = root / "bus" / "pci" / "devices"
    devices.mkdir(parents=True, exist_ok=True)
    wanted = {device.pci.address: device for device in state.devices if device.enumerated}
    for directory in devices.iterdir():
        if directory.name not in wanted:
            shutil.rmtree(directory)
    for address, device in wanted.items():
        if not (devices / address).exists():
            _write(devices / address, device)


def _write(directory: Path, device: Device) -> None:
    directory.mkdir()
    files = {
        "vendor": f"0x{device.pci.vendor}",
        "device": f"0x{device.pci.device}",
        "subsystem_vendor": f"0x{device.pci.subvendor}",
        "subsystem_device": f"0x{device.pci.subdevice}",
        "class": _CLASS,
        "current_link_speed": _SPEED,
        "max_link_speed": _SPEED,
        "current_link_width": _WIDTH,
        "max_link_width": _WIDTH,
    }
    for name, content in files.items():
        (directory / name).write_text(content + "\n")
