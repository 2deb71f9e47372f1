"""Child process that only listens: it subscribes to the driver's fault events and copies them to stdout.

Run as `python -I -S dcmi_events.py LIBRARY`. A subscription cannot be ended or repaired within a process, so this one
is thrown away and started anew instead. stdout carries frames of 360 bytes: `struct dcmi_event` as the driver made it
(type 0 at offset 0), or our own, told apart by a negative type, with two more 32-bit numbers behind it:

    -1  code, stage     how the subscription went: the return code of the stage (0 load, 1 init, 2 subscribe)
    -2  logic, phy      one chip of this process's id map; all of them come before the first event
    -3                  every THREAD_CHECK_MS once subscribed: whoever is stopped or frozen is told from a quiet driver

It ends when stdin is closed: then nobody is left to read.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from ctypes import CFUNCTYPE, Structure, byref, c_int, c_ubyte, c_uint, c_ulonglong, c_void_p
from typing import Any

FRAME_BYTES = 360  # sizeof(struct dcmi_event); below PIPE_BUF, so one write is one frame
STATUS, MAPPING, ALIVE = -1, -2, -3
LOAD, INIT, SUBSCRIBE = 0, 1, 2
LOAD_FAILED, SYMBOL_MISSING, NOT_SUPPORTED = -99999, -99998, -8255
MAX_CHIPS = 64
ALL = -1
PR_SET_PDEATHSIG, SIGKILL = 1, 9
THREAD_CHECK_MS = 2000
out = os.dup(1)


class Filter(Structure):
    """struct dcmi_event_filter, 48 bytes, passed by value; all zero = every event."""

    _fields_ = (
        ("flag", c_ulonglong),
        ("event_id", c_uint),
        ("severity", c_ubyte),
        ("node_type", c_ubyte),
        ("resv", c_ubyte * 34),
    )


def send(kind: int, first: int, second: int) -> None:
    words = (number.to_bytes(4, sys.byteorder, signed=True) for number in (kind, first, second))
    write(b"".join(words).ljust(FRAME_BYTES, b"\0"))


def write(frame: bytes) -> None:
    try:
        os.write(out, frame)
    except OSError:
        os._exit(0)  # the reader is gone


def copy_out(event: int | None) -> None:
    """Called by the driver's own thread, with a buffer it uses again: copy at once, never raise."""
    if event is None:
        return
    write(ctypes.string_at(event, FRAME_BYTES))


Callback = CFUNCTYPE(None, c_void_p)
forward = Callback(copy_out)  # the driver calls it as long as the process lives: it must never be collected


def call(library: Any, name: str, *args: Any) -> int:
    try:
        return int(getattr(library, name)(*args))
    except AttributeError:
        return SYMBOL_MISSING


def send_map(library: Any, *, version: int) -> None:
    """Events name chips by this process's logic ids, which are frozen at init like everything else."""
    getter = "dcmi_get_device_phyid_from_logicid" if version == 1 else "dcmiv2_get_chip_phy_id_by_dev_id"
    for logic in range(MAX_CHIPS):
        phy = c_uint(0)
        if call(library, getter, logic, byref(phy)) == 0 and phy.value < 2**31:
            send(MAPPING, logic, phy.value)


def subscribe(library: Any, *, version: int) -> int:
    name = "dcmi_subscribe_fault_event" if version == 1 else "dcmiv2_subscribe_fault_event"
    ids = [c_int, c_int] if version == 1 else [c_int]
    try:
        function = getattr(library, name)
    except AttributeError:
        return SYMBOL_MISSING
    function.argtypes = [*ids, Filter, Callback]
    return int(function(*(ALL for _ in ids), Filter(), forward))


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    parent = os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    try:
        library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    except OSError:
        send(STATUS, LOAD_FAILED, LOAD)
        return
    version, ret = 1, call(library, "dcmi_init")
    if ret == NOT_SUPPORTED:
        version, ret = 2, call(library, "dcmiv2_init")
    if ret != 0:
        send(STATUS, ret, INIT)
        return
    send_map(library, version=version)
    before = threads()
    ret = subscribe(library, version=version)
    send(STATUS, ret, SUBSCRIBE)
    if ret == 0:
        watch(parent, threads() - before)


def watch(parent: int, listeners: set[str]) -> None:
    """Until stdin closes, or the threads that the subscription has made are gone: the driver ends them silently."""
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    while not listeners or listeners & threads():
        if poll.poll(THREAD_CHECK_MS) and not os.read(parent, 1):
            return
        send(ALIVE, 0, 0)


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


if __name__ == "__main__":
    main()
    os._exit(0)
