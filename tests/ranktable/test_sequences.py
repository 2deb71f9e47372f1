"""Whatever happens to a service, in whatever order: each table that is published is one its reader may act upon."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import fold
from reconciler.core.actions import PublishTable
from reconciler.core.publishing import current, plan_tables
from reconciler.ranktable import schema
from reconciler.ranktable.checks import refused
from tests.core.build import Object
from tests.core.worlds import world_of
from tests.ranktable.service import CONFIGMAP, JOB_ID, instance, manager, managers, recovery_of, rings, write

COORDINATORS = ("10.244.0.1", "10.244.0.2")
JOBS = tuple("abcdef")
HAPPENINGS = ("added", "recovery", "gone", "pods", "listing", "listed", "recovered", "failed", "removed", "whole")
WHOLE = ("added", "gone", "recovered", "pods", "listed")
history = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(HAPPENINGS), st.sampled_from(JOBS)),
        st.tuples(st.sampled_from(["whole", "whole", "removed"]), st.sampled_from(JOBS)),
        st.tuples(st.sampled_from(["coordinator without address", "coordinator back"]), st.just("")),
    ),
    min_size=6,
    max_size=40,
)


class Service:
    """One service under a leader that writes what is due after each happening. No address is ever given twice."""

    def __init__(self, *, a3: bool) -> None:
        self.world = world_of(managers())
        self.a3 = a3
        self.jobs: dict[str, list[Object]] = {}
        """The pods of each job that exists."""
        self.dead: set[str] = set()
        """Addresses of pods that are gone, or that an open recovery is about to delete."""
        self.published: list[PublishTable] = []
        self.ids: dict[str, int] = {}
        """By job, since it exists, the group it has stood in."""
        self.ids_given: dict[int, str] = {}
        self._addresses = 0

    def happens(self, what: str, job: str) -> None:
        if what == "whole":  # often, else there is seldom a table
            for step in WHOLE:
                self.happens(step, job)
        elif what == "added" and job not in self.jobs:
            self.jobs[job] = []
            self._see(instance(job)[0])
        elif what in ("coordinator without address", "coordinator back"):
            self._see(*manager("coordinator", COORDINATORS[0], COORDINATORS[1] if what.endswith("back") else None)[1:])
        elif job in self.jobs:
            self._of_a_job(what, job)

    def _of_a_job(self, what: str, job: str) -> None:
        pods = self.jobs[job]
        if what == "recovery" and pods:
            self.dead |= addresses(pods)
            self._see(recovery_of(job, *pods))
        elif what == "recovered":
            self._see(recovery_of(job, phase="Recovered"))
        elif what in ("gone", "removed"):
            self._go(pods)
            if what == "removed":
                (gone, *_) = instance(job)
                fold.observe(self.world, gone["kind"], "gone", gone)
                del self.jobs[job]
                self.ids.pop(job, None)
        elif what == "failed" and pods:
            pods[0]["status"]["phase"] = "Failed"
            self._see(pods[0])
        elif what == "pods" and not pods:
            self._addresses += 2
            pods += instance(job, *(f"10.244.9.{self._addresses + n}" for n in range(2)))[1:]
            for pod in pods:
                pod["metadata"]["uid"] += f"-{self._addresses}"
            self._see(*pods)
        elif what in ("listing", "listed"):
            # While it lists anew the operator keeps the list of the pods before.
            known = self.world.rank_tables.get(f"ml/rings-config-{job}")
            old = [server.address for server in known.servers] if known is not None else []
            status, ips = ("initializing", old) if what == "listing" else ("completed", sorted(addresses(pods)))
            self._see(rings(job, *ips, status=status, a3=self.a3, version=str(self._addresses)))

    def _go(self, pods: list[Object]) -> None:
        self.dead |= addresses(pods)
        for pod in pods:
            fold.observe(self.world, "Pod", "gone", pod)
        pods.clear()

    def _see(self, *objects: Object) -> None:
        for obj in objects:
            fold.observe(self.world, obj["kind"], "set", obj)

    def publish(self) -> list[PublishTable]:
        due = [one for one in plan_tables(self.world.snapshot()) if isinstance(one, PublishTable)]
        for action in due:
            _, outcome = write(self.world, action)
            assert outcome.done
        self.published += due
        return due


def addresses(pods: list[Object]) -> set[str]:
    return {pod["status"]["podIP"] for pod in pods}


def holds(service: Service, action: PublishTable) -> None:
    """What the reader checks, whom it would talk to, and that it can tell the groups apart."""
    table = schema.read(action.text)
    assert table is not None
    assert refused(table) is None
    assert table.version == ("1.2" if service.a3 else "1.0")
    assert not table.addresses & service.dead, "no pod that is gone or about to be deleted"
    by_address = {ip: job for job, pods in service.jobs.items() for ip in addresses(pods)}
    for group in table.server_group_list[2:]:
        (job,) = {by_address[server.server_ip] for server in group.server_list}
        assert {server.server_ip for server in group.server_list} == addresses(service.jobs[job]), "whole"
        number = int(group.group_id)
        assert service.ids.setdefault(job, number) == number, f"{job} has had another id"
        assert service.ids_given.setdefault(number, job) == job, f"{number} was {service.ids_given[number]}'s"
    assert action.annotations[schema.DIGEST] == schema.digest(action.text)


def told(service: Service) -> str | None:
    """What a subscriber is given now."""
    return current(service.world.snapshot()).get(JOB_ID)


@given(history, st.booleans())
def test_every_published_table_is_right_when_it_is_published(happenings: list[tuple[str, str]], a3: bool) -> None:
    service = Service(a3=a3)
    generation = 0
    for what, job in happenings:
        service.happens(what, job)
        for action in service.publish():
            holds(service, action)
            generation += 1
            assert action.annotations[schema.GENERATION] == str(generation)
        assert service.publish() == [], "the same is not written twice"
        stands: Any = service.world.published.get(CONFIGMAP)
        if (text := told(service)) is not None:
            assert text == stands.data.global_ranktable == service.published[-1].text
            found = schema.read(text)
            assert found is not None
            assert not found.addresses & service.dead, "nobody new is told an address that is dead"


@given(history, st.booleans())
def test_after_whatever_a_service_that_is_whole_again_has_its_whole_table(
    happenings: list[tuple[str, str]], a3: bool
) -> None:
    service = Service(a3=a3)
    for what, job in happenings:
        service.happens(what, job)
        for action in service.publish():
            holds(service, action)
    service.happens("coordinator back", "")
    for job in JOBS:
        service.happens("whole", job)
    for action in service.publish():
        holds(service, action)
    table = schema.read(told(service) or "")
    assert table is not None
    every = {ip for pods in service.jobs.values() for ip in addresses(pods)}
    assert table.addresses == every | {*COORDINATORS, "10.244.0.3"}
