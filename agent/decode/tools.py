"""The table of all tools whose text can be decoded, and what they have in common: comments, errors, cut text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.decode import (
    hccn_address,
    hccn_dev_info,
    hccn_optical,
    hccn_port,
    hccn_says,
    hccn_stat,
    hccn_ub,
    kmsg,
    lspci,
    npu_smi_board,
    npu_smi_chip,
    npu_smi_hccs,
    npu_smi_ids,
    npu_smi_processes,
    npu_smi_says,
    npu_smi_table,
    npu_smi_topo,
    records,
)
from agent.decode.records import Decoded, Problem
from agent.decode.text import ParseError, read

Said = Callable[[Iterable[str]], Problem | None]


@dataclass(frozen=True, slots=True)
class Tool:
    """prints: the command it is of. empty: its record without an answer. said: its error texts.

    ends: how a last line looks that is whole although it has no line end; None = such a line is never used.
    """

    prints: str
    empty: type[Decoded]
    parse: Callable[[tuple[str, ...]], Decoded]
    said: Said
    ends: re.Pattern[str] | None = None


def _silent(_lines: Iterable[str]) -> Problem | None:
    """A log has no errors of its own."""
    return None


_BORDER = re.compile(r"^\+[-=+]*\+$")


def _npu_smi(
    args: str,
    empty: type[Decoded],
    parse: Callable[[tuple[str, ...]], Decoded],
    ends: re.Pattern[str] | None = None,
) -> Tool:
    return Tool(f"npu-smi info {args}".strip(), empty, parse, npu_smi_says.said, ends)


def _hccn(
    args: str, empty: type[Decoded], parse: Callable[[tuple[str, ...]], Decoded], ends: re.Pattern[str] | None = None
) -> Tool:
    return Tool(f"hccn_tool -i N {args} -g", empty, parse, hccn_says.said, ends)


TOOLS: dict[str, Tool] = {
    "npu-smi-info": _npu_smi("", records.Table, npu_smi_table.parse, _BORDER),
    "npu-smi-health": _npu_smi("-t health -i N [-c C]", records.Chips, npu_smi_chip.parse_health),
    "npu-smi-board": _npu_smi("-t board -i N [-c C]", records.Chips, npu_smi_board.parse),
    "npu-smi-ecc": _npu_smi("-t ecc -i N [-c C]", records.Chips, npu_smi_chip.parse_ecc),
    "npu-smi-usages": _npu_smi("-t usages -i N [-c C]", records.Chips, npu_smi_chip.parse_usages),
    "npu-smi-m": _npu_smi("-m", records.Chips, npu_smi_ids.parse_map),
    "npu-smi-l": _npu_smi("-l", npu_smi_ids.Cards, npu_smi_ids.parse_list),
    "npu-smi-proc-mem": _npu_smi("-t proc-mem -i N [-c C]", records.Processes, npu_smi_processes.parse),
    "npu-smi-hccs": _npu_smi("-t hccs -i N -c C", records.Chips, npu_smi_hccs.parse),
    "npu-smi-spod": _npu_smi("-t spod-info -i N -c C", records.Chips, npu_smi_chip.parse_spod),
    "npu-smi-topo": _npu_smi("-t topo", npu_smi_topo.Topology, npu_smi_topo.parse),
    "hccn-link": _hccn("-link", hccn_port.Link, hccn_port.parse_link, hccn_port.ENDS),
    "hccn-link-stat": _hccn("-link_stat", hccn_port.LinkStat, hccn_port.parse_link_stat, hccn_port.ENDS),
    "hccn-net-health": _hccn("-net_health", hccn_port.NetHealth, hccn_port.parse_net_health, hccn_port.ENDS),
    "hccn-stat": _hccn("-stat", hccn_stat.Stat, hccn_stat.parse),
    "hccn-optical": _hccn("-optical", hccn_optical.Optical, hccn_optical.parse),
    "hccn-speed": _hccn("-speed", hccn_port.Speed, hccn_port.parse_speed, hccn_port.ENDS),
    "hccn-fec": _hccn("-fec", hccn_port.Fec, hccn_port.parse_fec, hccn_port.ENDS),
    "hccn-ip": _hccn("-ip", hccn_address.Ip, hccn_address.parse_ip),
    "hccn-gateway": _hccn("-gateway", hccn_address.Gateway, hccn_address.parse_gateway),
    "hccn-lldp": _hccn("-lldp", hccn_address.Lldp, hccn_address.parse_lldp),
    "hccn-ping": _hccn("-ping", hccn_address.Ping, hccn_address.parse_ping, hccn_address.PING_ENDS),
    "hccn-dev-info": Tool("hccn_tool -g -dev_info -i N", hccn_dev_info.DevInfo, hccn_dev_info.parse, hccn_says.said),
    "hccn-ub-connect": Tool("hccn_tool -g -ub_connect -i N", hccn_ub.UbConnect, hccn_ub.parse, hccn_says.said),
    "lspci": Tool("lspci [-D] [-n|-nn]", lspci.Bus, lspci.parse, _silent, lspci.ENDS),
    "kmsg": Tool("/dev/kmsg, dmesg, a syslog", kmsg.KernelLog, kmsg.parse, _silent),
}


def decode(name: str, text: str) -> Decoded:
    """What this text of a tool says. With `error` set the rest is what is certain nevertheless. Raises KeyError."""
    tool = TOOLS[name]
    capture = read(text, tool.ends)
    cut = f"the last line has no end and is left out: {capture.tail.strip()[:80]!r}" if capture.tail.strip() else ""
    try:
        answer = tool.parse(capture.lines)
        problem = answer.error
    except ParseError as exc:
        answer = tool.empty()
        if any(line.strip() for line in capture.lines):
            problem = Problem("foreign", f"{exc}; {cut}" if cut else str(exc))
        elif cut:
            problem = Problem("truncated", cut)
        else:
            problem = Problem("empty", f"no text: {tool.prints} printed nothing")
    if problem is None and cut:
        problem = Problem("truncated", cut)
    answer.tool = name
    answer.error = tool.said((*capture.lines, capture.tail)) or problem
    return answer
