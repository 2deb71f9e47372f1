"""The numbers of detection that an operator may change: the `[debounce]` table of agent.toml."""

from __future__ import annotations

from typing import Annotated

import msgspec


class DetectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each default is the one to run with; a reason to change it should come from an incident."""

    recover_hold_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0
    """How long a recover event waits before the driver is asked, because its code list lags behind its events."""
    lost_card_polls: Annotated[int, msgspec.Meta(ge=1, le=6)] = 3
    """So many polls in a row without the chip make it lost; fewer would take a booting chip for one."""
    flaps: Annotated[int, msgspec.Meta(ge=2, le=100)] = 5
    """So many recoveries below FaultTimeout within `flap_window_s` are sub-health: each alone would never show."""
    flap_window_s: Annotated[float, msgspec.Meta(gt=0, le=864000)] = 3600.0
