"""Return codes of DCMI in words (dcmi_interface_api.h), for logs and reports."""

from __future__ import annotations

OK = 0
ABSENT_HEALTH = 0xFFFFFFFF
"""Health of a device that is not in the driver's list; the call itself answers 0."""
WORST_HEALTH = 3
NOT_SUPPORTED = -8255
OCCUPIED = -8020
TOO_MANY_CODES = -8005
"""An inner error; a list of more codes than fit is one too (dcmi_get_device_errorcode_v2)."""

WORDS = {
    -8001: "parameter error",
    -8002: "not permitted",
    -8003: "out of memory",
    -8005: "inner error",
    -8006: "time-out in the driver",
    -8007: "invalid device id",
    -8008: "device does not exist",
    -8009: "ioctl failed",
    -8010: "sending failed",
    -8011: "receiving failed",
    -8012: "device not ready",
    -8014: "file error",
    -8017: "being upgraded",
    -8020: "occupied by another process or container",
    -8255: "not supported",
    -99997: "an answer that cannot be",
    -99998: "this library has no such function",
    -99999: "the library cannot be loaded",
}

NOT_HERE = frozenset({NOT_SUPPORTED, -8002, -99998})
"""This driver has no such call, or does not permit it: no fault, and nothing to wait for."""

STALE = frozenset({-8001, -8005, -8007, -8008})
"""What a chip answers that has vanished since this process enumerated: a new process can tell whether it is back."""


def say(code: int) -> str:
    """`-8012 (device not ready)`."""
    return f"{code} ({WORDS[code]})" if code in WORDS else str(code)
