"""Child process that holds libdcmi: requests on stdin, one JSON line per answer on stdout.

Run as `python -I -S dcmi_worker.py LIBRARY` and with nothing but the standard library, so that it stays near 10 MiB.
It exists because the library forks shells, is not thread-safe, freezes its card list at init and can hang in the
kernel: whoever waits for it must be another process. Prototypes: dcmi_interface_api.h (v1, `dcmi_*`, card and device)
and the `dcmiv2_*` family of the Ascend950 (logic id). Every chip is named by a ref `card,device` (v2: `logic,-1`).

    enumerate [REF...]   identities of all chips but the REFs; a line `at` before each, so that a hang has a name
    read REF...          health and code list of each, one line as soon as it is there
    measure WHAT REF...  the gauges WHAT (GAUGES) of each, as [return code, 32-bit words]

It is one file, long as it is, because with -I and -S it can import nothing that stands beside it.

Each answer ends with a line of kind `end`. Return codes come before values: a value beside a code is garbage.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import byref, c_char, c_int, c_ubyte, c_uint
from typing import Any

NOT_SUPPORTED = -8255
SYMBOL_MISSING = -99998  # MindCluster's number for it
LOAD_FAILED = -99999
NONSENSE = -99997
"""The call answered 0 and wrote what cannot be: as good as no answer."""
MAX_CARDS = 64
MAX_DEVICES = 16  # in one card; the header knows 4
MAX_CODES = 128
SPARE_BYTES = 2048  # more than any structure read here, in any driver version
ROCE_PORT = 1
VDIE, DDIE = 1, 2
MAIN_CMD_CHIP_INF, SUB_CMD_SPOD_INFO = 12, 1
MAIN_CMD_HCCS, SUB_CMD_HCCS_STATUS, SUB_CMD_HCCS_COUNTERS = 16, 0, 5
HCCS_STATUS_WORDS, HCCS_COUNTERS_WORDS = 2, 128
MEMORY_HBM = 2
AICORE_RATE, HBM_RATE = 2, 6
MAX_PROCESSES = 64
PROCESS_WORDS = 4  # struct dcmi_proc_mem_info: pid i32, padding, bytes u64
COMPONENT_XLOADER, COMPONENT_IMU, COMPONENT_HILINK = 1, 8, 18
VERSION_BYTES = 64  # the least that is taken

# getters of `dcmi_` and `dcmiv2_` alike: name, what stands between chip and buffer, words of the structure that count,
# what stands behind the buffer
Getter = tuple[str, tuple[int, ...], int, tuple[int, ...]]
VERSION = "get_device_component_static_version"
GAUGES: dict[str, tuple[Getter, ...]] = {
    "ecc": (("get_device_ecc_info", (MEMORY_HBM,), 7, ()),),
    "heat": (
        ("get_device_temperature", (), 1, ()),
        ("get_device_power_info", (), 1, ()),
        ("get_device_hbm_info", (), 8, ()),
    ),
    # whose version is called the firmware's depends on the generation: npu-smi asks IMU on 910A, XLOADER on 310
    "versions": (
        ("get_device_compatibility", (), 1, ()),
        (VERSION, (COMPONENT_HILINK,), VERSION_BYTES // 4, (VERSION_BYTES,)),
        (VERSION, (COMPONENT_IMU,), VERSION_BYTES // 4, (VERSION_BYTES,)),
        (VERSION, (COMPONENT_XLOADER,), VERSION_BYTES // 4, (VERSION_BYTES,)),
    ),
}
WORK: tuple[Getter, ...] = (
    ("get_device_utilization_rate", (AICORE_RATE,), 1, ()),
    ("get_device_utilization_rate", (HBM_RATE,), 1, ()),
)
V2_GAUGES = {
    **GAUGES,
    "ub": (("get_ub_port_link_status", (), 37, ()),),
    "net": (("get_device_network_health", (), 1, ()),),
}

Ref = tuple[int, int]
out = os.dup(1)
PR_SET_PDEATHSIG, SIGKILL = 1, 9


def text(value: Any) -> str:
    """JSON of numbers, lists, None and harmless strings; the json module would cost a megabyte."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return '"' + "".join(ch for ch in value if " " <= ch <= "~" and ch not in '"\\') + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(text(item) for item in value) + "]"
    return str(value)


def say(kind: str, **fields: Any) -> None:
    line = ",".join(f'"{key}":{text(value)}' for key, value in {"kind": kind, **fields}.items())
    try:
        os.write(out, b"{" + line.encode() + b"}\n")
    except OSError:
        os._exit(0)  # the reader is gone


class Library:
    """Symbols are looked up at the call: versions differ, a missing one is an answer and no error."""

    def __init__(self, path: str) -> None:
        self._dll = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def call(self, name: str, *args: Any) -> int:
        try:
            function = getattr(self._dll, name)
        except AttributeError:
            return SYMBOL_MISSING
        return int(function(*args))

    def word(self, name: str, *args: Any) -> tuple[int, int]:
        """(return code, value) of a getter whose last argument is an `unsigned *`."""
        value = c_uint(0)
        return self.call(name, *args, byref(value)), value.value

    def word_first(self, name: str, *args: int) -> tuple[int, int]:
        """The same for `dcmi_get_device_logic_id`, whose out argument stands first."""
        value = c_int(0)
        return self.call(name, byref(value), *args), value.value

    def words(self, name: str, count: int, *args: Any, behind: tuple[Any, ...] = ()) -> tuple[int, list[int]]:
        """(return code, the first words of the structure), the words only where the call succeeded."""
        room = (c_uint * (SPARE_BYTES // 4))()
        ret = self.call(name, *args, room, *behind)
        return ret, list(room[:count]) if ret == 0 else []

    def work(self, prefix: str, processes: str, *args: int) -> list[tuple[int, list[int]]]:
        """The rates of WORK, then the ids of the processes that hold the chip."""
        found = [self.words(f"{prefix}{name}", count, *args, *more) for name, more, count, _ in WORK]
        count = c_int(0)
        ret, words = self.words(f"{prefix}{processes}", MAX_PROCESSES * PROCESS_WORDS, *args, behind=(byref(count),))
        ret = counted(ret, count.value, MAX_PROCESSES)
        return [*found, (ret, words[: count.value * PROCESS_WORDS : PROCESS_WORDS] if ret == 0 else [])]

    def buffer(self, name: str, *args: Any) -> bytes | None:
        """What a getter wrote into its last argument, a structure; None when it failed."""
        room = (c_ubyte * SPARE_BYTES)()
        return bytes(room) if self.call(name, *args, room) == 0 else None

    def string(self, name: str) -> str | None:
        room = (c_char * SPARE_BYTES)()
        return room.value.decode("ascii", "replace") if self.call(name, room, 256) == 0 else None

    def codes(self, name: str, *args: int) -> tuple[int, list[int]]:
        count = c_int(0)
        room = (c_uint * (2 * MAX_CODES))()
        ret = counted(self.call(name, *args, byref(count), room, MAX_CODES), count.value, MAX_CODES)
        return ret, list(room[: count.value]) if ret == 0 else []


def counted(ret: int, count: int, most: int) -> int:
    """`ret`, or NONSENSE when the call says it went well and counts fewer than none or more than there is room for."""
    return NONSENSE if ret == 0 and not 0 <= count <= most else ret


def u32(raw: bytes, offset: int) -> int:
    return int.from_bytes(raw[offset : offset + 4], sys.byteorder)


def c_text(raw: bytes) -> str | None:
    return raw.split(b"\0", 1)[0].decode("ascii", "replace").strip() or None


def pci_fields(raw: bytes | None) -> dict[str, Any]:
    """struct dcmi_pcie_info_all: venderid, subvenderid, deviceid, subdeviceid, domain, bus, device, function."""
    if raw is None:
        return {}
    domain, bus, device, function = (u32(raw, offset) for offset in (16, 20, 24, 28))
    return {"pci": f"{domain:04X}:{bus:02X}:{device:02X}.{function:X}"}


def name_field(raw: bytes | None) -> dict[str, Any]:
    """struct dcmi_chip_info(_v2): chip_type[32], chip_name[32], chip_ver[32]."""
    return {} if raw is None else {"name": c_text(raw[32:64])}


def die_field(raw: bytes | None) -> dict[str, Any]:
    """struct dcmi_die_id: five words. Nothing but zeros is a die that could not be read: it would tell no two chips
    apart, and a chip from itself."""
    words = [] if raw is None else [u32(raw, 4 * part) for part in range(5)]
    return {"die": "-".join(f"{word:08X}" for word in words)} if any(words) else {}


class V1:
    api = 1

    def __init__(self, lib: Library) -> None:
        self.lib = lib

    def enumerate(self, skip: set[Ref]) -> None:
        count = c_int(0)
        cards = (c_int * (2 * MAX_CARDS))()
        ret = counted(self.lib.call("dcmi_get_card_list", byref(count), cards, MAX_CARDS), count.value, MAX_CARDS)
        listed = list(cards[: count.value]) if ret == 0 else []
        for card in listed:
            if card >= 0 and (card, -1) not in skip:
                self._card(card, skip)
        # a card that boots, is occupied or failed at init is listed as -1
        absent = sum(card < 0 for card in listed)
        say("end", ret=ret, absent=absent, driver=self.lib.string("dcmi_get_driver_version"))

    def _card(self, card: int, skip: set[Ref]) -> None:
        say("at", ref=(card, -1))
        devices, mcu, cpu = c_int(0), c_int(0), c_int(0)
        ret = self.lib.call("dcmi_get_device_id_in_card", card, byref(devices), byref(mcu), byref(cpu))
        if ret == SYMBOL_MISSING:
            ret = self.lib.call("dcmi_get_device_num_in_card", card, byref(devices))
        ret = counted(ret, devices.value, MAX_DEVICES)
        if ret != 0:
            say("lost", ref=(card, -1), ret=ret)
        for device in range(devices.value if ret == 0 else 0):
            if (card, device) not in skip:
                self._chip(card, device)

    def _chip(self, card: int, device: int) -> None:
        say("at", ref=(card, device))
        ret, logic = self.lib.word_first("dcmi_get_device_logic_id", card, device)
        phy = 0
        if ret == 0:
            ret, phy = self.lib.word("dcmi_get_device_phyid_from_logicid", logic)
        if ret != 0:
            say("lost", ref=(card, device), ret=ret)
            return
        lib, ref = self.lib, (card, device)
        fields = {"ref": ref, "phy": phy, "logic": logic, "card": card, "chip": device}
        fields |= pci_fields(lib.buffer("dcmi_get_device_pcie_info_v2", *ref))
        fields |= name_field(lib.buffer("dcmi_get_device_chip_info", *ref))
        fields |= die_field(lib.buffer("dcmi_get_device_die_v2", *ref, VDIE))
        fields |= self._address(ref) | self._super_pod(ref)
        say("chip", **fields)

    def _address(self, ref: Ref) -> dict[str, Any]:
        """struct dcmi_ip_addr: 16 bytes, then the type (0 = IPv4)."""
        address, mask = (c_ubyte * SPARE_BYTES)(), (c_ubyte * SPARE_BYTES)()
        if self.lib.call("dcmi_get_device_ip", *ref, ROCE_PORT, 0, address, mask) != 0 or u32(bytes(address), 16) != 0:
            return {}
        return {"ip": ".".join(str(byte) for byte in address[:4])}

    def _super_pod(self, ref: Ref) -> dict[str, Any]:
        """struct dcmi_spod_info: sdid, super_pod_size, super_pod_id, server_index."""
        size = c_uint(SPARE_BYTES)
        room = (c_ubyte * SPARE_BYTES)()
        args = (*ref, MAIN_CMD_CHIP_INF, SUB_CMD_SPOD_INFO, room, byref(size))
        if self.lib.call("dcmi_get_device_info", *args) != 0:
            return {}
        return {"sdid": u32(bytes(room), 0), "super_pod": u32(bytes(room), 8)}

    def read(self, ref: Ref) -> None:
        health = self.lib.word("dcmi_get_device_health", *ref)
        say("read", ref=ref, health=health, codes=self.lib.codes("dcmi_get_device_errorcode_v2", *ref))

    def measure(self, what: str, ref: Ref) -> None:
        if what == "hccs":
            gauges = [
                self._hccs(ref, SUB_CMD_HCCS_STATUS, HCCS_STATUS_WORDS),
                self._hccs(ref, SUB_CMD_HCCS_COUNTERS, HCCS_COUNTERS_WORDS),
            ]
        elif what == "work":
            gauges = self.lib.work("dcmi_", "get_device_resource_info", *ref)
        else:
            gauges = [
                self.lib.words(f"dcmi_{name}", count, *ref, *args, behind=behind)
                for name, args, count, behind in GAUGES.get(what, ())
            ]
        say("measure", ref=ref, gauges=gauges)

    def _hccs(self, ref: Ref, sub_command: int, count: int) -> tuple[int, list[int]]:
        size = c_uint(SPARE_BYTES)
        args = (*ref, MAIN_CMD_HCCS, sub_command)
        return self.lib.words("dcmi_get_device_info", count, *args, behind=(byref(size),))


class V2:
    """The Ascend950: the same questions, a chip is its logic id alone."""

    api = 2

    def __init__(self, lib: Library) -> None:
        self.lib = lib

    def enumerate(self, skip: set[Ref]) -> None:
        count = c_int(0)
        chips = (c_int * (2 * MAX_CARDS))()
        ret = counted(self.lib.call("dcmiv2_get_device_list", chips, byref(count), MAX_CARDS), count.value, MAX_CARDS)
        listed = list(chips[: count.value]) if ret == 0 else []
        for logic in listed:
            if logic >= 0 and (logic, -1) not in skip:
                self._chip(logic)
        absent = sum(logic < 0 for logic in listed)
        say("end", ret=ret, absent=absent, driver=self.lib.string("dcmiv2_get_driver_version"))

    def _chip(self, logic: int) -> None:
        ref = (logic, -1)
        say("at", ref=ref)
        ret, phy = self.lib.word("dcmiv2_get_chip_phy_id_by_dev_id", logic)
        if ret != 0:
            say("lost", ref=ref, ret=ret)
            return
        fields = {"ref": ref, "phy": phy, "logic": logic, "card": logic, "chip": 0}
        fields |= pci_fields(self.lib.buffer("dcmiv2_get_device_pcie_info", logic))
        fields |= name_field(self.lib.buffer("dcmiv2_get_device_chip_info", logic))
        fields |= die_field(self.lib.buffer("dcmiv2_get_device_die_id", logic, DDIE))  # it knows no other
        say("chip", **fields)

    def read(self, ref: Ref) -> None:
        health = self.lib.word("dcmiv2_get_device_health", ref[0])
        say("read", ref=ref, health=health, codes=self.lib.codes("dcmiv2_get_device_error_code_list", ref[0]))

    def measure(self, what: str, ref: Ref) -> None:
        if what == "work":
            gauges = self.lib.work("dcmiv2_", "get_device_proc_mem_info", ref[0])
        else:
            gauges = [
                self.lib.words(f"dcmiv2_{name}", count, ref[0], *args, behind=behind)
                for name, args, count, behind in V2_GAUGES.get(what, ())
            ]
        say("measure", ref=ref, gauges=gauges)


def start(path: str) -> V1 | V2 | None:
    try:
        lib = Library(path)
    except OSError as exc:
        say("ready", ret=LOAD_FAILED, api=0, why=str(exc))
        return None
    ret = lib.call("dcmi_init")
    api: V1 | V2 = V1(lib)
    if ret == NOT_SUPPORTED:
        # only now: on older chips dcmiv2_init wipes what dcmi_init has found
        ret = lib.call("dcmiv2_init")
        api = V2(lib)
    say("ready", ret=ret, api=api.api, why="dcmi_init" if api.api == 1 else "dcmiv2_init")
    return api if ret == 0 else None


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    requests = os.fdopen(os.dup(0))
    # the library forks shells: they get neither our requests nor our answers
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    api = start(sys.argv[1])
    if api is None:
        return
    for request in requests:
        verb, *words = request.split()
        what = words.pop(0) if verb == "measure" else ""
        refs = [(int(card), int(device)) for card, device in (word.split(",") for word in words)]
        if verb == "enumerate":
            api.enumerate(set(refs))
        else:
            for ref in refs:
                if verb == "measure":
                    api.measure(what, ref)
                else:
                    api.read(ref)
            say("end", ret=0)


if __name__ == "__main__":
    main()
    os._exit(0)  # the library's destructors may hang, and there is nothing left to save
