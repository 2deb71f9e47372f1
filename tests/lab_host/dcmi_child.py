"""A process that loads libdcmi.so and calls what it is told to: one JSON request a line in, one JSON answer a line out.

{"call": name, "args": [...]}   an argument is a number, {"out": bytes} for a buffer full of 0xA5, {"size": n} for
                                a size that the callee may change, {"filter": {...}} or {"handler": true}
{"threads": [request, ...]}     the same from several threads at once
{"events": true}                what the handler has got so far
{"names": true}                 the names of this process's threads
{"has": name}                   whether the library exports the function
"""

import ctypes
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any


class Filter(ctypes.Structure):
    _fields_ = (
        ("flag", ctypes.c_ulonglong),
        ("event_id", ctypes.c_uint),
        ("severity", ctypes.c_ubyte),
        ("node_type", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 32),
    )


EVENT_SIZE = 360
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
library = ctypes.CDLL(sys.argv[1])
events: list[dict[str, Any]] = []


def thread_name(tid: int) -> str:
    """Empty for a thread that has ended meanwhile."""
    try:
        with open(f"/proc/self/task/{tid}/comm") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def collect(event: int) -> None:
    raw = ctypes.string_at(event, EVENT_SIZE)
    events.append({"raw": raw.hex(), "at": event, "thread": thread_name(threading.get_native_id())})


handler = HANDLER(collect)  # referenced for ever: the library calls it from its own thread


def argument(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    if "out" in given:
        return ctypes.create_string_buffer(b"\xa5" * given["out"], given["out"])
    if "size" in given:
        return ctypes.pointer(ctypes.c_uint(given["size"]))
    if "filter" in given:
        return Filter(**given["filter"])
    return handler if given["handler"] else HANDLER()


def call(request: Mapping[str, Any]) -> dict[str, Any]:
    arguments = [argument(given) for given in request["args"]]
    ret = getattr(library, request["call"])(*arguments)
    outs = [given.raw.hex() for given in arguments if isinstance(given, ctypes.Array)]
    return {"ret": ret, "outs": outs}


def answer(request: Mapping[str, Any]) -> Any:
    if "call" in request:
        return call(request)
    if "threads" in request:
        threads = [threading.Thread(target=call, args=(one,)) for one in request["threads"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return None
    if "events" in request:
        return list(events)
    if "names" in request:
        return [thread_name(int(tid)) for tid in os.listdir("/proc/self/task")]
    return hasattr(library, request["has"])


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
