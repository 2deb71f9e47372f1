"""What a drill is to the person who runs one: its kinds, its phases against objectives, and the report. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal
from xml.etree import ElementTree

import msgspec

from console.cli.output import harmless
from shared.names import (
    CODE_AGENT_SILENT,
    CODE_CARD_LOST,
    CODE_LINK_DOWN,
    CODE_MONITOR_BLIND,
    CODE_POD_FAILED,
    CODE_REDIS_DOWN,
)

Phase = Literal["detect", "taint", "delete", "ready", "reverted"]
PHASES: tuple[Phase, ...] = ("detect", "taint", "delete", "ready", "reverted")
ONLY_REAL: frozenset[str] = frozenset({"taint", "delete", "ready"})
_HELD: tuple[Phase, ...] = ("detect", "reverted")
FORMATS = ("text", "json", "junit", "markdown")
NODE = "node"


class Kind(msgspec.Struct, frozen=True):
    """What is injected. of_node: no chip of it. phases: those that it can reach.

    by: who does it. The node's agent, the command with the person's rights (a pod ends), or the lab (Redis stops).
    """

    says: str
    code: str
    of_node: bool = False
    by: Literal["agent", "command", "lab"] = "agent"
    phases: tuple[Phase, ...] = PHASES

    @property
    def held(self) -> bool:
        """Whether the proof is that nothing is done: taint and pods stay as they are."""
        return self.phases == _HELD


KINDS: dict[str, Kind] = {
    "chip-fault": Kind("the driver lists a fault code on a chip (--code; default: HBM beyond repair)", "80E18402"),
    "card-lost": Kind("the driver does not know the chip any more", CODE_CARD_LOST),
    "link-down": Kind("the chip's network port is down, in the driver's words", CODE_LINK_DOWN),
    "link-flap": Kind("the chip's network port goes down again and again", "NW-LINK-FLAP"),
    "driver-hang": Kind("the driver does not answer at all", CODE_MONITOR_BLIND, of_node=True),
    "node-silent": Kind("the agent reports nothing, until it has a real fault", CODE_AGENT_SILENT, True, phases=_HELD),
    "software-fault": Kind(
        "a pod ends as Failed (--pod)", CODE_POD_FAILED, True, "command", ("detect", "delete", "ready")
    ),
    "redis-down": Kind("Redis answers nobody, in the lab alone", CODE_REDIS_DOWN, True, "lab", _HELD),
}


class Timed(msgspec.Struct, frozen=True):
    """One phase, in seconds after the drill was asked for. at_s None: not reached. objective_s None: none was set."""

    phase: Phase
    at_s: float | None
    objective_s: float | None = None

    @property
    def met(self) -> bool | None:
        """None: nothing was asked."""
        return None if self.objective_s is None else self.at_s is not None and self.at_s <= self.objective_s

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "-"}[self.met]


class Report(msgspec.Struct, frozen=True):
    """How a drill went. why: what kept it from running, or cut it short. began: RFC 3339.

    held: of a drill that must change nothing, what was left as it is.
    """

    drill: str
    node: str
    kind: str
    fault: str
    effect: str
    began: str
    phases: list[Timed]
    would: list[str] = []
    recoveries: list[str] = []
    why: str = ""
    held: str = ""

    @property
    def ok(self) -> bool:
        return not self.why and all(one.met is not False for one in self.phases)


def objectives(text: str, effect: str, kind: Kind) -> dict[str, float]:
    """`detect=2s,ready=120s` as seconds by phase. Raises ValueError."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"([a-z]+)=(\d{1,5}(?:\.\d{1,3})?)(ms|s|m)", part.strip())
        if match is None or match[1] not in PHASES:
            raise ValueError(f"{part.strip()!r} is no PHASE=TIME such as detect=2s; phases are {', '.join(PHASES)}")
        if match[1] not in kind.phases:
            raise ValueError(f"{match[1]}: such a drill has no such phase, but {', '.join(kind.phases)}")
        if effect != "real" and match[1] in ONLY_REAL:
            raise ValueError(f"{match[1]}: a shadow drill does nothing beyond detection; use --effect real")
        found[match[1]] = float(match[2]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[3]]
    return found


def phases_of(at_s: Mapping[str, float], wanted: Mapping[str, float]) -> list[Timed]:
    """Every phase that was reached or asked for, in order."""
    return [Timed(one, at_s.get(one), wanted.get(one)) for one in PHASES if one in at_s or one in wanted]


def render(report: Report, form: str) -> str:
    """The report as one of FORMATS. Whoever may annotate the node can have written it: none of it steers a terminal."""
    match form:
        case "json":
            return json.dumps({**msgspec.to_builtins(report), "ok": report.ok}, indent=2)
        case "junit":
            return harmless(_junit(report))
        case "markdown":
            return harmless(_markdown(report))
        case _:
            return harmless(_text(report))


def _headline(report: Report) -> str:
    word = "ok" if report.ok else "FAILED"
    return f"drill {report.drill}: {report.kind} {report.fault} on {report.node}, effect {report.effect}: {word}"


def _rows(report: Report) -> list[tuple[str, str, str, str]]:
    return [(one.phase, _seconds(one.at_s), _seconds(one.objective_s), one.verdict) for one in report.phases]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}s"


def _notes(report: Report) -> list[str]:
    notes = [f"held: {report.held}"] if report.held else []
    notes += [f"would {text}" for text in report.would]
    notes += [f"recovery {name}" for name in report.recoveries]
    return [*notes, *([report.why] if report.why else [])]


def _text(report: Report) -> str:
    lines = [_headline(report), *(f"  {p:<9}{at:>8}  objective {goal:>7}  {v}" for p, at, goal, v in _rows(report))]
    return "\n".join([*lines, *(f"  {note}" for note in _notes(report))])


def _markdown(report: Report) -> str:
    table = ["| phase | after | objective | verdict |", "|---|---|---|---|"]
    table += [f"| {' | '.join(row)} |" for row in _rows(report)]
    return "\n".join([f"## {_headline(report)}", "", *table, "", *(f"- {note}" for note in _notes(report))]).rstrip()


def _junit(report: Report) -> str:
    """One test case per phase; a phase without an objective that was reached passes. The rest is in system-out."""
    failed = sum(one.met is False for one in report.phases) + bool(report.why)
    cases = len(report.phases) + bool(report.why)
    suite = ElementTree.Element(
        "testsuite", name=f"drill {report.kind}", tests=str(cases), failures=str(failed), timestamp=report.began
    )
    for one in report.phases:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{report.kind}.{report.node}", name=one.phase, time=f"{one.at_s or 0:.3f}"
        )
        if one.met is False:
            text = f"{one.phase} after {_seconds(one.at_s)}, objective {_seconds(one.objective_s)}"
            ElementTree.SubElement(case, "failure", message=text)
    if report.why:
        case = ElementTree.SubElement(suite, "testcase", classname=f"{report.kind}.{report.node}", name="drill")
        ElementTree.SubElement(case, "failure", message=report.why)
    ElementTree.SubElement(suite, "system-out").text = "\n".join([_headline(report), *_notes(report)])
    return ElementTree.tostring(suite, encoding="unicode")


def decode(raw: str) -> Report:
    """A kept report. Raises ValueError."""
    try:
        return msgspec.json.decode(raw, type=Report)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ValueError(f"it is no report of a drill: {exc}") from exc
