"""Data as each released version has written it (data/VERSION), read by this one.

Recorded with that version's own daemons and never edited: a test that goes red here is a broken upgrade. A release adds
its own directory.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agent.main import last_run, remembered
from agent.store import FILE, Store
from reconciler.core.objects import Node
from reconciler.core.recovery import Recovery
from reconciler.core.taints import current_want, record_of
from shared.model import FaultLevel, Instant
from shared.wire import WireError, decode_note, decode_report
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY, kubectl
from tests.waiting import wait_until

VERSIONS = sorted((Path(__file__).parent / "data").iterdir())
CODE = "80E18402"

each = pytest.mark.parametrize("recorded", VERSIONS, ids=lambda path: str(path.name))


def with_more(value: Any) -> Any:
    """The same as a later version might write it: a field more in every object."""
    if isinstance(value, dict):
        return {**{key: with_more(inner) for key, inner in value.items()}, "addedLater": {"x": [1]}}
    return [with_more(inner) for inner in value] if isinstance(value, list) else value


@each
def test_reports_of_older_agents_are_understood(recorded: Path) -> None:
    report = decode_report((recorded / "report.json").read_bytes(), node="node-a")
    assert [(fault.code, fault.chip, fault.level) for fault in report.faults] == [(CODE, 3, FaultLevel.SEPARATE_NPU)]
    assert len(report.chips) == 8
    assert report.agent.version == recorded.name


@each
def test_reports_of_newer_agents_are_understood(recorded: Path) -> None:
    raw = json.loads((recorded / "report.json").read_text())
    more = with_more(raw)
    more["faults"] = [{**fault, "evidence": raw["faults"][0]["evidence"]} for fault in more["faults"]]  # free form
    assert decode_report(json.dumps(more).encode(), node="node-a") == decode_report(
        json.dumps(raw).encode(), node="node-a"
    )


@each
def test_another_schema_is_refused_by_its_number(recorded: Path) -> None:
    raw = {**json.loads((recorded / "report.json").read_text()), "v": 2}
    with pytest.raises(WireError, match="schema version 2"):
        decode_report(json.dumps(raw).encode(), node="node-a")


@pytest.fixture
def state(recorded: Path, tmp_path: Path) -> Path:
    """The state directory that the older agent has left, with an outage of Redis behind it."""
    with sqlite3.connect(tmp_path / FILE) as database:
        database.executescript((recorded / "agent.sql").read_text())
    database.close()
    return tmp_path


@each
def test_an_agent_goes_on_where_the_older_one_ended(recorded: Path, state: Path) -> None:
    store = Store(state)
    try:
        assert store.problem is None
        kept = last_run(store.memory())
        assert kept is not None, "the fault history is read"
        memory = remembered(kept, kept.boot_id, Instant(kept.memory.saved.mono + 10, kept.memory.saved.wall + 10))
        assert memory is not None
        assert CODE in msgspec.json.encode(memory).decode()
        notes = [decode_note(note) for _, note in store.pending(10)]
        assert "80E01801@5" in {event.id for note in notes for event in note.events}, "what Redis has not taken is kept"
    finally:
        store.close()
    assert not list(state.glob("*broken*"))


@each
def test_an_older_agent_reads_what_a_newer_one_left(recorded: Path, state: Path) -> None:
    """Back to the version before: fields it does not know are passed over, its history stays."""
    with sqlite3.connect(state / FILE) as database:
        (raw,) = database.execute("SELECT value FROM memory").fetchone()
        more = json.loads(raw)
        more["addedLater"] = more["memory"]["addedLater"] = {"x": 1}
        database.execute("CREATE TABLE added_later (x INTEGER)")
        database.execute("UPDATE memory SET value = ?", (json.dumps(more).encode(),))
    database.close()
    store = Store(state)
    try:
        assert last_run(store.memory()) is not None
    finally:
        store.close()


@each
def test_isolations_and_recoveries_go_on(recorded: Path) -> None:
    node = msgspec.convert(yaml.safe_load((recorded / "node.yaml").read_text()), Node, strict=False)
    record, taint = record_of(node), current_want(node)
    assert record is not None
    assert record.reasons
    assert taint is not None
    raw = yaml.safe_load((recorded / "recovery-finished.yaml").read_text())
    recovery = msgspec.convert(raw, Recovery)
    assert recovery.status.phase == "Recovered"
    assert recovery.status.charged == 1, "retries that were used stay used"
    assert msgspec.convert(with_more(raw), Recovery).spec.targets == recovery.spec.targets


@each
def test_recoveries_of_older_versions_stay_valid(recorded: Path, control_plane: ControlPlane) -> None:
    """A definition that asked for a new field, or no longer had an old one, would make them unwritable."""
    kubectl(control_plane, "apply", "--server-side", "--force-conflicts", "-f", str(DEPLOY / "crd.yaml"))
    wait_until("recoveries are served", lambda: "recoveries" in kubectl(control_plane, "api-resources", "-o", "name"))
    raw = yaml.safe_load((recorded / "recovery-finished.yaml").read_text())
    path = "/apis/npuwarden.io/v1alpha1/namespaces/default/recoveries?dryRun=All&fieldValidation=Strict"
    body = {**raw, "metadata": {"name": raw["metadata"]["name"]}}
    assert control_plane.api.post(path, body)["status"] == raw["status"]
