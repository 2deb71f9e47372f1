"""Which kernel messages mean what: one row for each pattern, the first that matches counts.

Sources: printk formats of the Ascend driver, node-problem-detector's kernel monitor, gpud, Ascend fault diagnosis.
A group `chip` is the driver's device number, which on the host is the physical id.
"""

from __future__ import annotations

import re

from shared.names import CODE_CARD_LOST

_ROWS: tuple[tuple[str, str], ...] = (
    # the NPU driver
    (r"\[drv_soft_fault\].*Heartbeat lost! \(device(?:_id)?=(?P<chip>[0-9]{1,9});", CODE_CARD_LOST),
    (r"The device urgent heartbeat is lost! \(device=(?P<chip>[0-9]{1,9})\)", CODE_CARD_LOST),
    (r"Device heart beat lost, stop all msg send\. \(u?dev_?id=(?P<chip>[0-9]{1,9})\)", CODE_CARD_LOST),
    (r"Channel is blocked\. \(dev_id=\d+; aer_critical_cnt=\d+\)", "NW-KMSG-NPU"),
    (r"report heart beat lost event failed|Heart beat lost workqueue has been destroyed", "NW-KMSG-NPU"),
    (r"\[ascend\].*(?:device_status is dead|Device is abnormal|heart beat exception\. dev_id)", "NW-KMSG-NPU"),
    (r"\[ascend\].*(?:DMA timeout|DMA channel wait timeout|Device irq not resp)", "NW-KMSG-NPU"),
    (r"pcivnic_net_timeout|pcivnic_pciedev_send .* is dead|hdcdrv_connect .* pcie not ready", "NW-KMSG-NPU"),
    # memory and processes
    (r"invoked oom-killer:|Memory cgroup out of memory|Out of memory: Kill(?:ed)? process \d+", "NW-KMSG-OOM"),
    (r"task [\S ]+:\w+ blocked for more than \w+ seconds\.", "NW-KMSG-HUNG-TASK"),
    (r"soft lockup - CPU#\d+ stuck for \d+s! \[|Watchdog detected hard LOCKUP", "NW-KMSG-LOCKUP"),
    (r"self-detected stall on CPU|detected stalls on", "NW-KMSG-LOCKUP"),
    (r"BUG: unable to handle kernel NULL pointer dereference at", "NW-KMSG-OOPS"),
    (r"unable to handle page fault for address:", "NW-KMSG-OOPS"),
    (r"divide error: 0000 \[#\d+\] SMP|Kernel panic - not syncing", "NW-KMSG-OOPS"),
    # hardware of the host
    (r"\[Hardware Error\]: event severity: corrected$|CE memory read error ", "NW-KMSG-CORRECTED"),
    (r"\[Hardware Error\]: event severity: (?:recoverable|fatal)$|Fatal machine check", "NW-KMSG-HARDWARE"),
    (r"EDAC MC.*UE memory scrubbing error|RAS:.*begin to process userspace SEA exception addr", "NW-KMSG-HARDWARE"),
    (r"begin to process kernelspace SEA exception|error_type: 3, multi-bit ECC", "NW-KMSG-HARDWARE"),
    (r"RAS:.*isolate page", "NW-KMSG-CORRECTED"),
    (r"PCIe Bus Error: severity=Uncorrected", "NW-KMSG-PCIE"),
    # storage
    (r"EXT4-fs error |XFS .* Shutting down filesystem|Remounting filesystem read-only", "NW-KMSG-STORAGE"),
    (r"Buffer I/O error |I/O error while writing superblock|attempt to access beyond end of device", "NW-KMSG-STORAGE"),
    (r"nvme nvme\d+: I/O .* timeout, reset controller|Disabling device after reset failure", "NW-KMSG-STORAGE"),
    (r"block nvme.*: no available path - failing I/O|Disk failure on .* detected, failing array", "NW-KMSG-STORAGE"),
    # resources
    (r"nf_conntrack: table full|VFS: file-max limit \d+ reached|alloc pid failed", "NW-KMSG-RESOURCE"),
    (r"unregister_netdevice: waiting for \w+ to become free\. Usage count = \d+", "NW-KMSG-RESOURCE"),
    (r"page allocation failure|No space left on device", "NW-KMSG-RESOURCE"),
)  # fmt: skip

PATTERNS = tuple((re.compile(pattern), code) for pattern, code in _ROWS)
CODES = tuple(dict.fromkeys(code for _, code in _ROWS if code != CODE_CARD_LOST))
"""The node's codes. The lost heartbeat is the vendor's, and concerns a chip."""


def match(text: str) -> tuple[str, re.Match[str]] | None:
    """Code and match of the first pattern that fits; None for the thousands of messages that mean nothing here."""
    for pattern, code in PATTERNS:
        found = pattern.search(text)
        if found is not None:
            return code, found
    return None
