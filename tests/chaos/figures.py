"""What a run says of itself at its end."""

from tests.chaos.judge import Record, lost
from tests.chaos.storm import Storm
from tests.chaos.toxics import Rigging


def told(where: str, storm: Storm, record: Record, *, unanswered: str = "lost") -> str:
    """One paragraph of figures. unanswered: what a steady fault is that nobody has answered."""
    steps, faults = sum(storm.done.values()), storm.truth.faults
    steady = [fault for fault in faults if fault.steady]
    missing = lost(storm.truth, storm.answered)
    spoiled = sum(proxy.spoiled for proxy in storm.rigging.proxies) + sum(way.spoiled for way in storm.rigging.ways)
    kinds = {kind: sum(fault.kind == kind for fault in faults) for kind in ("chip", "node", "pod")}
    by = ", ".join(f"{name} {count}" for name, count in sorted(storm.done.items()))
    return (
        f"\nchaos on the {where}, seed {storm.seed}: {steps} steps ({by})\n"
        f"  faults injected {len(faults)} ({kinds}), of them steady {len(steady)}, "
        f"survived {len(steady) - len(missing)}, {unanswered} {len(missing)}\n"
        f"  requests and connections spoiled {spoiled}; writes {len(record.writes)}, "
        f"pods deleted {len(record.deletions)}"
    )


def bugs_said(rigging: Rigging) -> list[str]:
    """Of each daemon that has logged an exception nobody foresaw: what it said around the first."""
    daemons = (*rigging.replicas, *rigging.agents.values())
    return [
        f"{d.name}: {d.said[max(0, at - 300) : at + 2000]}" for d in daemons if (at := d.said.find("Traceback")) >= 0
    ]
