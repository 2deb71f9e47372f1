"""Who this process is among all that lead or have led: its name in the lease and in Recoveries.

A pod's processes follow one another, two never run at once: what the lease says of an earlier process of this very pod
is over, and need not be waited out. Only the pod's UID proves that; a host name does not (two replicas of one machine).
Source: Kubernetes downward API (`metadata.uid` as POD_UID), container restarts within a pod.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """holder: of this process alone. pod: its pod's UID, "" where nobody has told it."""

    holder: str
    pod: str = ""

    def succeeds(self, holder: str) -> bool:
        """Whether that holder was an earlier process of this pod, and so has ended."""
        parts = holder.split("_")
        return bool(self.pod) and holder != self.holder and len(parts) == 3 and parts[1] == self.pod


def identity(environ: Mapping[str, str] = os.environ) -> Identity:
    """`<host>_<pod UID>_<random>`; without POD_UID `<host>_<random>`."""
    host, pod, unique = socket.gethostname(), environ.get("POD_UID", ""), uuid.uuid4().hex[:8]
    return Identity("_".join(part for part in (host, pod, unique) if part), pod)
