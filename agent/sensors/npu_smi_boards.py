"""Who a chip is beyond its place, where npu-smi alone is there to say: the die id, else the number of its card.

Asked once for each chip that is shown, one chip a poll: each call of the tool initialises the whole driver library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from agent.decode import npu_smi_board
from agent.decode.npu_smi_board import BoardChip
from agent.decode.npu_smi_says import ToolSays
from agent.decode.text import ParseError
from agent.detect.readings import ChipIdentity
from agent.sensors.process import ToolError

Ask = Callable[..., Awaitable[tuple[str, ...]]]
"""The lines of one call of npu-smi. May raise ToolError, ToolSays."""


class Boards:
    """A chip that is not shown in between is asked again: another may stand in its place."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: dict[int, tuple[str | None, str | None]] = {}
        self._turn = 0

    async def learn(self, shown: Sequence[ChipIdentity]) -> None:
        """Ask for one chip that has not answered yet, each in turn. One that fails is asked again later."""
        self._known = {one.phy: self._known[one.phy] for one in shown if one.phy in self._known}
        unknown = [one for one in shown if one.phy not in self._known and one.card is not None]
        if not unknown:
            return
        self._turn += 1
        chip = unknown[self._turn % len(unknown)]
        try:
            self._known[chip.phy] = await self._marks(chip)
        except (ToolError, ToolSays, ParseError):
            return

    def complete(self, identity: ChipIdentity) -> ChipIdentity:
        die, serial = self._known.get(identity.phy, (None, None))
        return msgspec.structs.replace(identity, die=die, serial=serial)

    async def _marks(self, chip: ChipIdentity) -> tuple[str | None, str | None]:
        """Die id and serial number. Tools that know chips of a card print the one with `-c` and the other without."""
        card = ["-i", str(chip.card)]
        if chip.chip is not None:
            die = _die((await self._board(*card, "-c", str(chip.chip))).vdie)
            if die is not None:
                return die, None
        board = await self._board(*card)
        return _die(board.ddie), board.serial

    async def _board(self, *where: str) -> BoardChip:
        (board,) = npu_smi_board.parse(await self._ask("info", "-t", "board", *where)).chips
        assert isinstance(board, BoardChip)
        return board


def _die(words: str | None) -> str | None:
    """As the library's child spells it, and like there nothing but zeros is none (dcmi_worker.py)."""
    return None if words is None or not words.strip("0 ") else "-".join(words.upper().split())
