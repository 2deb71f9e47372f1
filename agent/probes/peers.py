"""Whether each chip's port reaches the peers that the reconciler has given this node (hccn_tool -ping).

A chip that has reached all of them asks one in each round, another every time. When that one is silent all are asked:
all silent is the chip's own fault, several silent is a path, a single silent one may be that peer's fault: unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from agent.config import AgentConfig
from agent.detect.readings import ChipFinding
from agent.evidence import Streak
from agent.peer_book import PeerBook
from agent.ports import chips_with_ports
from agent.probe import CannotLook, Observation, Sensors, partly
from agent.sensors.hccn import TIMEOUT_S, Hccn
from agent.sensors.process import ToolError
from shared.commands import Peer

SILENT, PATH = "NW-PEERS-SILENT", "NW-PEERS-PATH"
MAX_PINGS = 16
"""After so many the rest of the chips waits for the next round: each ping is a process of a second or so, and the other
probes of ports wait for the same tool."""
MAX_PEERS = 4


class Peers:
    name = "peers"
    timeout_s = (MAX_PINGS + MAX_PEERS) * TIMEOUT_S

    def __init__(self, period_s: float, sensors: Sensors, hccn: Hccn, book: PeerBook, *, looks: int) -> None:
        self.period_s = period_s
        self._sensors, self._hccn, self._book = sensors, hccn, book
        self._bad = Streak(looks)
        self._silent: dict[int, int] = {}
        """How many peers were silent when all of them were asked last, by chip."""
        self._round = 0
        self._queue: list[int] = []
        self._pings = 0

    async def look(self) -> Observation:
        peers = self._book.current(time.monotonic())[:MAX_PEERS]
        if not peers:
            if any(count > 1 for count in self._silent.values()):
                raise CannotLook("the list of peers has expired and no new one has come from the reconciler")
            return Observation()
        known = self._sensors.chips.enumeration.chips
        chips = [phy for phy in chips_with_ports(self._sensors) if known[phy].ip]
        findings: list[ChipFinding] = []
        unknown: list[str] = []
        for phy in self._due(chips):
            answers, failed = await self._ask(phy, peers)
            unknown += [f"chip {phy}: {why}" for why in failed]
            if (question := doubt(answers, asked=len(peers))) is not None:
                unknown.append(f"chip {phy}: {question}")
            findings += self._findings(phy, answers, asked=len(peers))
        return Observation(chips=tuple(findings), partly=partly(unknown))

    def _due(self, chips: Sequence[int]) -> Iterator[int]:
        """From where the last round stopped, until the pings are used up or all chips have had their turn."""
        self._queue = [phy for phy in self._queue if phy in chips]
        if not self._queue:
            self._queue, self._round = list(chips), self._round + 1
        self._pings = 0
        while self._queue and self._pings < MAX_PINGS:
            yield self._queue.pop(0)

    async def _ask(self, phy: int, peers: Sequence[Peer]) -> tuple[dict[str, bool], list[str]]:
        """Who answered, by `address (node)`, and why others could not be asked."""
        trusted = self._silent.get(phy) == 0
        start = (self._round + phy) % len(peers)
        answers: dict[str, bool] = {}
        failed: list[str] = []
        for peer in (*peers[start:], *peers[:start]):
            address = address_for(phy, peer)
            self._pings += 1
            try:
                answered = await self._hccn.reaches(phy, address)
            except ToolError as exc:
                failed.append(str(exc))
                continue
            answers[f"{address} ({peer.node})"] = answered
            if answered and trusted and len(answers) == 1:
                break
        if len(answers) == len(peers):
            self._silent[phy] = list(answers.values()).count(False)
        return answers, failed

    def _findings(self, phy: int, answers: Mapping[str, bool], *, asked: int) -> Iterator[ChipFinding]:
        silent = [name for name, answered in answers.items() if not answered]
        evidence = {"silent": ", ".join(silent), "asked": str(len(answers))}
        for code, bad in verdict(answers, asked=asked).items():
            active = self._bad.judge((phy, code), bad)
            if active is not None:
                yield ChipFinding(phy, code, active, evidence if active else {})


def verdict(answers: Mapping[str, bool], *, asked: int) -> dict[str, bool]:
    """What one round says of a chip's codes; a code that is missing stays as it is, nobody can tell.

    asked: how many peers there are. All silent counts against the chip once two or more were asked, and all could be.
    """
    silent = list(answers.values()).count(False)
    if silent < len(answers):
        path = None if silent == 1 else silent > 1
        return {SILENT: False} if path is None else {SILENT: False, PATH: path}
    return {SILENT: True, PATH: False} if len(answers) == asked >= 2 else {}


def doubt(answers: Mapping[str, bool], *, asked: int) -> str | None:
    """What the round leaves open, as a sentence."""
    silent = [name for name, answered in answers.items() if not answered]
    judged = 1 < len(silent) < len(answers) or verdict(answers, asked=asked).get(SILENT)
    if not silent or judged:
        return None
    return f"{', '.join(silent)} does not answer, and whose fault that is cannot be told"


def address_for(phy: int, peer: Peer) -> str:
    """The peer's port on the same rail: the chip of the same number, else its first."""
    return peer.addresses.get(phy) or peer.addresses[min(peer.addresses)]


def make(config: AgentConfig, sensors: Sensors) -> Peers | None:
    if sensors.hccn is None or sensors.peers is None:
        return None
    return Peers(config.poll.links_s, sensors, sensors.hccn, sensors.peers, looks=config.probes.peers.looks)
