"""One chip of a simulated NPU host, and everything that the state file says about it.

Units: power in 0.1 W (`power_dw`), voltage in 0.01 V (`volt_cv`), memory in MB, frequency in MHz, link speed in
Mb/s, optical power in mW, times in seconds (`t`) or milliseconds (`*_ms`) since the epoch.
"""

from typing import Literal

import msgspec


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of everything in the file: immutable, so that a change is always a new state."""


class Pci(Part, frozen=True):
    """Address and ids of the chip's PCI function; ids are four hexadecimal digits."""

    domain: int = 0
    bus: int = 0
    dev: int = 0
    fn: int = 0
    vendor: str = "19e5"
    device: str = "d802"
    subvendor: str = "0200"
    subdevice: str = "0100"

    @property
    def address(self) -> str:
        """The name of the function under /sys/bus/pci/devices."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.dev:02x}.{self.fn:x}"


class Board(Part, frozen=True):
    """Board ids as dcmi_get_device_board_info and dcmi_get_mainboard_id give them."""

    board_id: int = 0
    pcb: int = 1
    bom: int = 1
    mainboard: int = 0


class Die(Part, frozen=True):
    """The five words of each die id, the identity that survives a change of slot. `n` = NDie or DDie."""

    v: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    n: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


class Active(Part, frozen=True):
    """An active event behind an error code: what its recovery has to know."""

    severity: int
    raised_ms: int


class Freq(Part, frozen=True):
    """Clocks in MHz."""

    aicore: int = 1800
    hbm: int = 1600


class Util(Part, frozen=True):
    """Utilisation in percent."""

    aicore: int = 0
    hbm: int = 5
    aicpu: int = 0
    ctrlcpu: int = 1


class Hbm(Part, frozen=True):
    """On-chip memory in MB, and its temperature in degrees Celsius. total 0 = the chip has none."""

    total: int = 65536
    used: int = 3445
    temp: int = 52


class Ddr(Part, frozen=True):
    """DDR memory in MB of the generations that have it (310P, 910A)."""

    total: int = 0
    used: int = 0


class Ecc(Part, frozen=True):
    """HBM ECC: enabled, then counts of single, double, total single, total double, isolated pages by single and
    by double errors, pages about to be isolated by single and by double errors."""

    hbm: tuple[int, int, int, int, int, int, int, int, int] = (1, 0, 0, 0, 0, 0, 0, 0, 0)


class Proc(Part, frozen=True):
    """A process that holds the chip, with the memory it uses there."""

    pid: int
    mb: int
    name: str = ""


class LinkChange(Part, frozen=True):
    """One record of the link history."""

    t: int
    up: bool


class Thresholds(Part, frozen=True):
    """Low and high limit of the optical power in mW, as the module states them."""

    tx: tuple[float, float] = (0.2818, 3.5481)
    rx: tuple[float, float] = (0.1445, 3.5481)


class Optical(Part, frozen=True):
    """The optical module. `los` and `lol` are the transmit and receive flag registers."""

    present: bool = True
    temp: int = 47
    tx: tuple[float, ...] = (1.4, 1.4, 1.4, 1.4)
    rx: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    thr: Thresholds = Thresholds()
    los: tuple[int, int] = (0, 0)
    lol: tuple[int, int] = (0, 0)


class Lldp(Part, frozen=True):
    """What the switch at the other end says about itself."""

    port: str = ""
    sys: str = ""


class Net(Part, frozen=True):
    """The chip's RoCE port. `net_health` is the index of hccn_tool's words: 0 success, 5 fault, 6 init.

    `unreachable`: addresses that answer none of its pings; `*` is every address. With the link down none does either.
    """

    link: Literal["UP", "DOWN"] = "UP"
    net_health: int = 0
    speed: int = 200000
    fec: str = "rs"
    ip: str | None = None
    mask: str = "255.255.255.0"
    gateway: str | None = None
    link_log: list[LinkChange] = []
    stat: dict[str, int] = {}
    lldp: Lldp = Lldp()
    unreachable: list[str] = []
    optical: Optical = Optical()


class Hccs(Part, frozen=True):
    """The chip-to-chip links: healthy when pcs_status is 0 and hdlc is 3. Lists have one entry per link."""

    pcs_status: int = 0
    hdlc: int = 3
    lanes: list[int] = []
    crc: list[int] = []
    retry: list[int] = []


class Spod(Part, frozen=True):
    """The place of the chip in its super pod (A3)."""

    sdid: int = 0
    size: int = 0
    pod: int = 0
    server: int = 0


class Ub(Part, frozen=True):
    """The UB ports of a 950, by number: 0 there is none, 1 linked at full width, 2 at a part of it, 3 not linked.

    Without ports the driver cannot tell (other boards). `needed` False: this chip is meant to have no links.
    """

    needed: bool = True
    ports: list[int] = []


class RocePort(Part, frozen=True):
    """One RoCE port of a 950, on a die of the chip. Not `wired`: it is switched off. log: its link history."""

    udie: int = 1
    port: int = 0
    up: bool = True
    wired: bool = True
    log: list[LinkChange] = []


class Device(Part, frozen=True):
    """One chip.

    `enumerated` False: a new process does not find it, and its PCI function is gone. `alive` False: it no longer
    answers. `occupied`: another container holds it. `health` is 0 OK to 3 Critical; `error_codes` are hexadecimal
    strings; `active` keeps severity and time of the codes that an injection raised. `compatibility` of driver and
    firmware: 1 they fit, 2 they do not, 3 not known.
    """

    card: int
    chip: int
    logic: int
    phy: int
    slot: int = 0
    enumerated: bool = True
    alive: bool = True
    occupied: bool = False
    boot_status: int = 16
    comm_lost: bool = False
    chip_name: str = "910B3"
    chip_type: str = "Ascend"
    chip_ver: str = "V1"
    firmware: str = "7.7.0.3.231"
    compatibility: int = 1
    aicores: int = 20
    pci: Pci = Pci()
    board: Board = Board()
    die: Die = Die()
    health: int = 0
    error_codes: list[str] = []
    active: dict[str, Active] = {}
    temp: int = 45
    power_dw: int = 932
    volt_cv: int = 89
    freq: Freq = Freq()
    util: Util = Util()
    hbm: Hbm = Hbm()
    ddr: Ddr = Ddr()
    ecc: Ecc = Ecc()
    procs: list[Proc] = []
    net: Net = Net()
    hccs: Hccs = Hccs()
    spod: Spod = Spod()
    ub: Ub = Ub()
    roce: list[RocePort] = []

    @property
    def present(self) -> bool:
        """Whether the driver can still talk to the chip at all."""
        return self.enumerated and self.alive
