"""A healthy machine of each generation, as the simulated host starts out.

Ids and addresses follow what such machines really show: A2 has card = logic = physical id, A3 two dies a card,
310P sparse card ids; the bus numbers of the eight 910B are not in card order.
"""

from collections.abc import Mapping
from itertools import count, islice

import msgspec

from console.lab.host.chip import Board, Ddr, Device, Die, Hbm, Hccs, LinkChange, Lldp, Net, Pci, Spod, Ub
from console.lab.host.state import Generation, HostState, StateError

MAX_CHIPS = 64  # dcmi_get_card_list has room for that many
_UP_FOR_S = 86_400  # how long the links of a new machine have been up


class _Model(msgspec.Struct, frozen=True, kw_only=True):
    chip_name: str
    pci_device: str
    board_id: int
    hbm_mb: int = 0
    ddr_mb: int = 0
    ddr_used_mb: int = 0
    chips_per_card: int = 1
    hccs_links: int = 0
    mainboard: int = 2
    version: str = "25.5.1"
    roce: bool = True


_MODELS: Mapping[Generation, _Model] = {
    "310P": _Model(chip_name="310P3", pci_device="d500", board_id=0x64, ddr_mb=21527, ddr_used_mb=1910, roce=False),
    "910A": _Model(
        chip_name="910A",
        pci_device="d801",
        board_id=0x02,
        hbm_mb=31129,
        ddr_mb=13553,
        ddr_used_mb=813,
        version="23.0.7",
    ),
    "910B": _Model(chip_name="910B3", pci_device="d802", board_id=0x30, hbm_mb=65536, hccs_links=7),
    "A3": _Model(
        chip_name="Ascend910",
        pci_device="d803",
        board_id=0xB0,
        hbm_mb=65536,
        chips_per_card=2,
        hccs_links=7,
        mainboard=0x18,
        version="26.0.rc1",
    ),
    "950": _Model(
        chip_name="Ascend950", pci_device="d806", board_id=0x1B, hbm_mb=131072, mainboard=0x44, version="26.1.0"
    ),
}

_BUSES_910B = (0xC1, 0xC2, 0x81, 0x82, 0x01, 0x02, 0x41, 0x42)
_CARDS_310P = (0, 32, 96, 32768, 32800, 32864)


def healthy(generation: Generation, chips: int, now_s: int, *, machine: int = 1) -> HostState:
    """A machine of `chips` healthy chips; `now_s` (seconds since the epoch) dates its link history.

    `machine` is a word of every die id: two machines have no die in common.

    Raises StateError when there can be no such machine.
    """
    model = _MODELS[generation]
    if not 1 <= chips <= MAX_CHIPS:
        raise StateError(f"a host has 1 to {MAX_CHIPS} chips, not {chips}")
    if chips % model.chips_per_card:
        raise StateError(f"{generation} cards have {model.chips_per_card} chips each: {chips} chips do not fill them")
    return HostState(
        generation=generation,
        driver=model.version,
        dcmi=model.version,
        npu_smi=model.version,
        devices=[_device(generation, model, phy, now_s, machine) for phy in range(chips)],
    )


def _device(generation: Generation, model: _Model, phy: int, now_s: int, machine: int) -> Device:
    card, chip = divmod(phy, model.chips_per_card)
    serial = 0x10000000 + phy
    return Device(
        card=_card_id(generation, card),
        chip=chip,
        logic=phy,
        phy=phy,
        slot=card,
        chip_name=model.chip_name,
        pci=Pci(bus=_bus(generation, phy), domain=phy // 64, device=model.pci_device),
        board=Board(board_id=model.board_id, mainboard=model.mainboard),
        die=Die(v=(serial, machine, 2, 3, 4), n=(serial, 5, 6, 7, 8)),
        hbm=Hbm(total=model.hbm_mb, used=0 if not model.hbm_mb else 3445),
        ddr=Ddr(total=model.ddr_mb, used=model.ddr_used_mb),
        net=_net(phy, now_s) if model.roce else Net(net_health=6),
        hccs=Hccs(lanes=[4] * model.hccs_links, crc=[0] * model.hccs_links, retry=[0] * model.hccs_links),
        spod=Spod(sdid=0x01000000 + phy, size=384, server=4) if generation == "A3" else Spod(),
        ub=Ub(ports=[0, 0, 0, 0, 1, 1, 1]) if generation == "950" else Ub(),
    )


def _card_id(generation: Generation, index: int) -> int:
    if generation != "310P":
        return index
    return next(islice((*_CARDS_310P, *islice(count(40000, 32), index)), index, None))


def _bus(generation: Generation, phy: int) -> int:
    if generation == "910B" and phy < len(_BUSES_910B):
        return _BUSES_910B[phy]
    return 0x03 + 2 * (phy % 64)


def _net(phy: int, now_s: int) -> Net:
    return Net(
        ip=f"10.20.165.{20 + phy}",
        gateway="10.20.165.1",
        link_log=[LinkChange(t=now_s - _UP_FOR_S, up=True)],
        lldp=Lldp(port=f"400GE1/1/{phy + 1}:1", sys="LEAF-1"),
    )
