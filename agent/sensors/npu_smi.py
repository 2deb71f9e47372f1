"""The fallback for hosts without libdcmi.so: `npu-smi`, one call at a time.

Every call of the tool initialises the whole driver library, so a poll is the table of all chips, the code list of each
chip whose health is not OK, and the code list of one healthy chip in turn: the table prints OK for a chip whose health
could not be read. Who a chip is beyond its place is asked once (npu_smi_boards.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.decode import npu_smi_table
from agent.decode.npu_smi_chip import parse_health
from agent.decode.npu_smi_ids import parse_map
from agent.decode.npu_smi_says import ToolSays, check
from agent.decode.npu_smi_table import HEALTH_WORDS
from agent.decode.records import Chip
from agent.decode.text import ParseError
from agent.detect.readings import ChipIdentity, ChipReading, DriverReading
from agent.sensors.dcmi import Bus
from agent.sensors.npu_smi_boards import Boards
from agent.sensors.process import Tool, ToolError
from agent.sensors.worker import ChipFacts, Enumeration

PLACES = ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi", "/usr/sbin/npu-smi", "/usr/bin/npu-smi")
TIMEOUT_S = 20.0
NOT_READY = -8012
NOT_SHOWN = "npu-smi lists this chip (info -m) and does not show it (info)"
MAX_SLOTS = 64
"""Card ids above are no slots (310P: 32768), and no physical ids either."""


class NpuSmi:
    """Same interface as DcmiSensor. Every reading is fresh: each call of the tool enumerates anew."""

    name = "npu-smi"

    def __init__(self, path: Path, *, bus: Bus, lock: Path | None, timeout_s: float = TIMEOUT_S) -> None:
        self.enumeration = Enumeration({})
        self._tool = Tool(path, timeout_s=timeout_s, lock=lock)
        self._bus = bus
        self._boards = Boards(self.ask)
        self.rows: tuple[tuple[ChipIdentity, Chip], ...] = ()
        """The chips of the newest poll with their rows of the table; none when that has failed."""
        self._turn = 0
        self._watched: set[int] = set()
        """Chips that are asked at every poll: they could not be read, or have codes, which `OK` does not rule out."""
        self._lock = asyncio.Lock()

    def renew(self) -> None:
        """Nothing to do: the tool enumerates at every call."""

    async def poll(self) -> DriverReading:
        async with self._lock:
            try:
                rows = parse_map(await self.ask("info", "-m")).chips
                table = npu_smi_table.parse(await self.ask("info"))
            except (ToolError, ToolSays, ParseError) as exc:
                self.rows = ()
                return DriverReading(
                    silent=f"npu-smi: {exc}", pci=self._bus.npus, passed_through=self._bus.passed_through
                )
            shown = [(identity, chip) for chip in table.chips if (identity := self._identify(chip, rows))]
            await self._boards.learn([identity for identity, _ in shown])
            chips = {identity.phy: (self._boards.complete(identity), chip) for identity, chip in shown}
            unshown = [row for row in rows if not any(_is_row(row, identity) for identity, _ in chips.values())]
            before = [one.identity for phy, one in self.enumeration.chips.items() if phy not in chips]
            left_out = [identity for identity in before if any(_is_row(row, identity) for row in unshown)]
            facts = {phy: ChipFacts(_ref(identity), identity) for phy, (identity, _) in chips.items()}
            facts |= {identity.phy: ChipFacts(_ref(identity), identity) for identity in left_out}
            self.enumeration = Enumeration(facts, driver=table.version)
            self.rows = tuple(chips[phy] for phy in sorted(chips)) if table.error is None else ()
            self._turn += 1
            in_turn = sorted(chips)[self._turn % len(chips)] if chips else None
            readings = [
                await self._chip(identity, chip, in_turn=identity.phy == in_turn)
                for _, (identity, chip) in sorted(chips.items())
            ]
            readings += [ChipReading(identity, why=NOT_SHOWN) for identity in left_out]
            bus = self._bus
            return DriverReading(tuple(readings), pci=bus.npus, gaps=len(unshown), passed_through=bus.passed_through)

    async def read(self, phy: int) -> ChipReading | None:
        """Health and codes of one chip now; None when it is not enumerated."""
        async with self._lock:
            known = self.enumeration.chips.get(phy)
            return None if known is None else await self._health(known.identity)

    async def close(self) -> None:
        """Nothing outlives a call."""

    async def ask(self, *args: str) -> tuple[str, ...]:
        """The lines of one call. Raises ToolError, and ToolSays for an error that it prints."""
        output = await self._tool.run(*args)
        check(output.out, output.code)
        return tuple(output.out.splitlines())

    async def _chip(self, identity: ChipIdentity, chip: Chip, *, in_turn: bool) -> ChipReading:
        if chip.card is None:
            why = "npu-smi shows no health for this chip: it is not ready"
            return ChipReading(identity, error=NOT_READY, why=why)
        healthy = chip.health == "OK"
        if healthy and not in_turn and identity.phy not in self._watched:
            return ChipReading(identity, health=0, codes=())
        reading = await self._health(identity)
        if reading.why or reading.codes:
            self._watched.add(identity.phy)
        else:
            self._watched.discard(identity.phy)
        return reading

    async def _health(self, identity: ChipIdentity) -> ChipReading:
        where = ["-i", str(identity.card)] + ([] if identity.chip is None else ["-c", str(identity.chip)])
        try:
            answers = parse_health(await self.ask("info", "-t", "health", *where)).chips
        except ToolSays as exc:
            return ChipReading(identity, error=exc.ret, why=f"npu-smi: {exc}")
        except (ToolError, ParseError) as exc:
            return ChipReading(identity, why=f"npu-smi: {exc}")
        if len(answers) != 1:
            return ChipReading(identity, why=f"npu-smi prints the health of {len(answers)} chips, asked for one")
        return _reading(identity, answers[0])

    def _identify(self, chip: Chip, rows: list[Chip]) -> ChipIdentity | None:
        """Who a row of the table is. A chip without its first row is known by its bus address from before."""
        if chip.card is None:
            return next((one.identity for one in self.enumeration.chips.values() if one.identity.pci == chip.bus), None)
        row = _row(chip, rows)
        logic = row.logic if row else None
        phy = next((known for known in (chip.phy, row.phy if row else None, chip.device) if known is not None), None)
        if phy is None:
            # one chip for each card: the card id is the physical id (A2), also when a lost card shifts the logic ids
            single = all(other.chip == 0 for other in rows)
            phy = chip.card if single and chip.card < MAX_SLOTS else logic
        if phy is None:
            return None
        return ChipIdentity(phy, card=chip.card, chip=chip.chip, logic=logic, pci=chip.bus, name=chip.name)


def _row(chip: Chip, rows: list[Chip]) -> Chip | None:
    return next((row for row in rows if row.card == chip.card and chip.chip in (None, row.chip)), None)


def _is_row(row: Chip, identity: ChipIdentity) -> bool:
    return row.card == identity.card and identity.chip in (None, row.chip)


def _ref(identity: ChipIdentity) -> tuple[int, int]:
    return (identity.card if identity.card is not None else -1, identity.chip if identity.chip is not None else -1)


def _reading(identity: ChipIdentity, answer: Chip) -> ChipReading:
    health = HEALTH_WORDS.get(answer.health or "")
    why = "" if health is not None and answer.codes is not None else f"npu-smi prints health {answer.health}"
    # that there are no codes is only believed beside a health
    codes = tuple(answer.codes) if answer.codes or (answer.codes is not None and health is not None) else None
    return ChipReading(identity, health=health, codes=codes, why=why)
