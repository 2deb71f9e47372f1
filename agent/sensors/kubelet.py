"""Which pods hold which chips, from the kubelet's device checkpoint. Best effort: no file, no mapping."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import msgspec

from agent.sensors.reach import why_not

log = logging.getLogger(__name__)

CHECKPOINT = "device-plugins/kubelet_internal_checkpoint"
RESOURCE_PREFIX = "huawei.com/"
_DEVICE = re.compile(r"(?:Ascend\w*|npu)-([0-9]{1,9})")
"""`Ascend910-3`, `npu-3`: the physical id stands behind. Virtual devices (`Ascend910-2c-100-1`) are not told apart."""


class _Entry(msgspec.Struct, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    resource_name: str
    device_ids: dict[str, list[str]] | list[str] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries", default=None)


class _Checkpoint(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


_decoder = msgspec.json.Decoder(_Checkpoint)


def parse_checkpoint(raw: bytes) -> dict[int, tuple[str, ...]]:
    """Physical id -> UIDs of the pods that hold it, sorted. Raises msgspec.MsgspecError."""
    pods: dict[int, set[str]] = {}
    for entry in _decoder.decode(raw).data.entries or ():
        if not entry.resource_name.startswith(RESOURCE_PREFIX):
            continue
        ids = entry.device_ids or []
        for device in ids if isinstance(ids, list) else [one for node in ids.values() for one in node]:
            found = _DEVICE.fullmatch(device)
            if found:
                pods.setdefault(int(found[1]), set()).add(entry.pod_uid)
    return {phy: tuple(sorted(uids)) for phy, uids in pods.items()}


class PodDevices:
    """Re-reads the checkpoint when it has changed."""

    def __init__(self, kubelet_dir: Path) -> None:
        self._path = kubelet_dir / CHECKPOINT
        self._stamp: tuple[int, int] | None = None
        self.pods: dict[int, tuple[str, ...]] = {}
        self.error: str | None = None

    def refresh(self) -> bool:
        """True when the mapping changed. An unreadable file keeps the last mapping, a missing one empties it."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                self.error = None
                return False
            pods = parse_checkpoint(self._path.read_bytes())
        except FileNotFoundError:
            stamp, pods = None, {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            if self.error is None:
                log.warning("%s: %s; which pods hold which chips stays as it was", self._path, exc)
            self.error = why_not(exc) if isinstance(exc, OSError) else str(exc)
            return False
        changed = pods != self.pods
        self._stamp, self.pods, self.error = stamp, pods, None
        return changed
