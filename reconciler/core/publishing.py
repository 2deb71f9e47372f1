"""The global rank table of each MindIE Motor service as a ConfigMap: written when what it must say has changed.

The ConfigMap is the publication: who serves it to the MS Controller serves what stands there, and what was published
survives the leader. Nothing is written while the table cannot be whole: the reader keeps its last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from reconciler.core.actions import Hold, PublishTable
from reconciler.core.objects import Owner, Pod
from reconciler.core.state import State
from reconciler.ranktable import schema
from reconciler.ranktable.services import JOB_ID, Service, serves


def plan_tables(state: State) -> Iterator[PublishTable | Hold]:
    """One write for each service whose table has changed. A view of the cluster that is old publishes nothing."""
    if not serves(state) or not state.watch_ok:
        return
    for service in state.services.values():
        for job, why in service.left_out.items():
            yield Hold(f"{service.namespace}/{job}", "deploy-server", f"it is in no global rank table: {why}")
        if service.table is None:
            subject = f"{service.namespace}/{service.managers[0].metadata.name}"
            yield Hold(subject, "global-table", f"no new global rank table of {service.job_id}: {service.why}")
        elif _published(state, service) != (text := schema.text_of(service.table)):
            yield _publish(state, service, text)


def current(state: State) -> dict[str, str]:
    """By jobID the tables that are right now and stand published: what a subscriber may be told."""
    if not serves(state) or not state.watch_ok:
        return {}
    return {
        service.job_id: text
        for service in state.services.values()
        if (text := _published(state, service)) and service.table is not None and text == schema.text_of(service.table)
    }


@dataclass(frozen=True, slots=True)
class Publication:
    """Whether the published table of its service lists a job's new pods, for a person."""

    done: bool
    message: str


def publication_of(state: State, job: Owner | None, pods: Sequence[Pod]) -> Publication | None:
    """None: no table has been made here of this job, so none is waited for."""
    if job is None or not serves(state):
        return None
    name = f"{schema.PREFIX}{job.metadata.labels.get(JOB_ID, '')}"
    service = state.services.get(f"{job.metadata.namespace}/{name}")
    if service is None or service.key not in state.published or job.metadata.name in service.left_out:
        return None
    if job not in service.managers and job.metadata.name not in service.groups.listed:
        return None
    if service.table is None:
        return Publication(False, f"no new global rank table of {service.job_id}: {service.why}")
    wanted = {pod.status.pod_ip or pod.metadata.name for pod in pods}
    if missing := sorted(wanted - service.table.addresses):
        return Publication(False, f"the global rank table of {service.job_id} does not list {missing[0]} yet")
    if _published(state, service) != schema.text_of(service.table):
        return Publication(False, f"ConfigMap {name} with the new global rank table is not written yet")
    generation = state.published[service.key].metadata.annotations.get(schema.GENERATION, "?")
    return Publication(
        True, f"global rank table of {service.job_id}, generation {generation}: whether it was consumed cannot be seen"
    )


def _published(state: State, service: Service) -> str:
    held = state.published.get(service.key)
    return held.data.global_ranktable if held is not None and held.data is not None else ""


def _publish(state: State, service: Service, text: str) -> PublishTable:
    held = state.published.get(service.key)
    before: Mapping[str, str] = held.metadata.annotations if held is not None else {}
    number = before.get(schema.GENERATION, "0")
    annotations = {
        schema.GENERATION: str(int(number) + 1 if number.isdecimal() else 1),
        schema.DIGEST: schema.digest(text),
        schema.GROUPS: msgspec.json.encode(service.groups, order="sorted").decode(),
    }
    version = held.metadata.resource_version if held is not None else None
    return PublishTable(service.namespace, service.job_id, version, text, annotations, service.managers)
