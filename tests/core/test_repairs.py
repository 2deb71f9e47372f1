"""Which chips somebody has to look for, where they are, and what speaks for a false alarm."""

import msgspec
import pytest

from reconciler.core import clock, fold
from reconciler.core.repairs import Repair, repairs
from reconciler.core.state import World
from shared.model import Chip, Fault, FaultLevel, Unknown, fault_id
from shared.names import ISOLATION_ANNOTATION, NAMESPACE, SEPARATED_CONFIGMAP, TAINT_KEY
from tests.core.build import Object, node
from tests.core.worlds import T0, a_fault, after, hear, report, world_of

CHIP = Chip(3, "fault", pci="0000:c1:00.0", die="DIE-3", name="910B4", codes=("80E18402",))


def isolated(name: str = "a", *, taint: str | None = "SeparateNPU", **record: object) -> Object:
    made = node(name)
    told = {"session": "s", "since": clock.rfc3339(T0.wall), "reasons": ["SeparateNPU 80E18402@3"], **record}
    made["metadata"]["annotations"] = {ISOLATION_ANNOTATION: msgspec.json.encode(told).decode()}
    effect = "PreferNoSchedule" if taint == "Probation" else "NoSchedule"
    made["spec"] = {"taints": [{"key": TAINT_KEY, "value": taint, "effect": effect}]} if taint else {}
    return made


def separated(**entries: str) -> Object:
    metadata = {"name": SEPARATED_CONFIGMAP, "namespace": NAMESPACE, "uid": "u"}
    return {
        "kind": "SeparatedDies",
        "metadata": metadata,
        "data": {die.replace("_", "-"): t for die, t in entries.items()},
    }


def world(*faults: Fault, on: Object | None = None, chip: Chip = CHIP, unknown: tuple[Unknown, ...] = ()) -> World:
    made = world_of([on or isolated(), node("b")])
    hear(made, msgspec.structs.replace(report("a", *faults, chips=(chip,)), unknown=unknown), report("b"))
    return made


def rows(made: World, name: str | None = None) -> list[Repair]:
    return repairs(made.snapshot(), after(90), name)


def test_a_row_says_where_the_chip_is_and_what_it_has() -> None:
    (row,) = rows(world(a_fault()))
    assert (row.node, row.chip, row.pci, row.die, row.model) == ("a", 3, "0000:c1:00.0", "DIE-3", "910B4")
    assert (row.code, row.level, row.since) == ("80E18402", "SeparateNPU", "2027-01-15T08:00:00.000Z")
    assert (row.isolated_since, row.isolated_s, row.marks) == ("2027-01-15T08:00:00.000Z", 90.0, [])


@pytest.mark.parametrize(
    ("fault", "listed"),
    [
        (a_fault(level=FaultLevel.SEPARATE_NPU), True),
        (a_fault(level=FaultLevel.MANUALLY_SEPARATE_NPU), True),
        (a_fault(level=FaultLevel.PRE_SEPARATE_NPU), True),
        (a_fault(level=FaultLevel.RESTART_NPU), False),
        (a_fault(level=FaultLevel.SUB_HEALTH), False),
        (a_fault("node", level=FaultLevel.SEPARATE_NPU), False),
        (Fault("X@3", "X", 3, FaultLevel.SEPARATE_NPU, T0.wall, True, origin="drill"), False),
    ],
    ids=["separate", "by hand", "pre-separate", "a reset mends it", "sub-health", "of the node", "a drill"],
)
def test_what_is_a_repair(fault: Fault, listed: bool) -> None:
    assert bool(rows(world(fault))) is listed


@pytest.mark.parametrize(
    ("made", "marks"),
    [
        (world(a_fault(confirmed=False)), ["unconfirmed"]),
        (world(a_fault(), on=isolated(flaps=2)), ["came back 2 times"]),
        (world(a_fault(), on=isolated(taint=None, released=["80E18402@3"])), ["released by hand"]),
        (world(a_fault(), unknown=(Unknown(3, "chip_health", T0.wall, "hangs"),)), ["cannot be read now"]),
        (world(a_fault(), chip=Chip(3, "unknown")), ["cannot be read now"]),
        (world(a_fault(), chip=Chip(2, "ok")), ["cannot be read now"]),
    ],
    ids=["unconfirmed", "flaps", "released", "unknown", "unknown chip", "no such chip"],
)
def test_what_speaks_against_it(made: World, marks: list[str]) -> None:
    assert [row.marks for row in rows(made)] == [marks]


@pytest.mark.parametrize("taint", [None, "Probation"])
def test_a_node_that_takes_work_is_not_isolated(taint: str | None) -> None:
    (row,) = rows(world(a_fault(), on=isolated(taint=taint)))
    assert row.isolated_since is None
    assert row.isolated_s is None


def test_what_the_probe_calls_it_goes_before_the_catalogue() -> None:
    fault = Fault(
        fault_id("NW-X", 3), "NW-X", 3, FaultLevel.SEPARATE_NPU, T0.wall, True, evidence={"name": "it smokes"}
    )
    (row,) = rows(world(fault))
    assert row.meaning == "it smokes"


def test_a_die_on_the_list_is_shown_where_it_is_or_as_gone() -> None:
    made = world()
    entry = '{"node": "z", "chip": 1, "codes": ["80E18402"], "since": "2027-01-01T00:00:00Z"}'
    fold.observe(made, "SeparatedDies", "set", separated(DIE_3=entry, GONE=entry, BY_HAND="x"))
    by_die = {row.die: row for row in rows(made)}
    assert (by_die["DIE-3"].node, by_die["DIE-3"].chip, by_die["DIE-3"].pci) == ("a", 3, "0000:c1:00.0")
    assert (by_die["GONE"].node, by_die["GONE"].chip) == ("z", 1)
    assert by_die["GONE"].marks == ["no node shows this die"]
    assert by_die["BY-HAND"].code == ""
    assert all(row.level == "ManuallySeparateNPU" for row in by_die.values())


def test_a_listed_die_whose_fault_is_reported_has_one_row() -> None:
    made = world(a_fault(level=FaultLevel.MANUALLY_SEPARATE_NPU))
    fold.observe(made, "SeparatedDies", "set", separated(DIE_3='{"node": "a", "chip": 3}'))
    assert [row.id for row in rows(made)] == ["80E18402@3"]


def test_by_node() -> None:
    made = world(a_fault())
    hear(made, report("b", a_fault(), seq=2))
    assert [row.node for row in rows(made)] == ["a", "b"]
    assert [row.node for row in rows(made, "b")] == ["b"]
