"""The storm: seeded steps that break, heal, kill, freeze and spoil; then the calm, in which everything must come right.

Toxics end by themselves after a drawn time, so that the parts are never all gone for longer than a real outage.
"""

import asyncio
import collections
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.chaos.judge import chips, isolated, ready
from tests.chaos.people import People
from tests.chaos.record import Object
from tests.chaos.toxics import Rigging, Toxics, start
from tests.chaos.truth import Injected, Truth

RESTARTING = ("80E18402", "8C03A000", "8C204E00")
"""SeparateNPU, RestartNPU, RestartBusiness: the node is tainted, the pods on the chip restart."""
STAYING = ("81078603", "8118043C")
"""A link and a chip code of PreSeparateNPU: the node is tainted, its pods stay."""
ILL_AT_ONCE = 2
CHIPS = 8
PAUSE_S = (0.02, 0.3)
CALM_S = 120.0


@dataclass
class Storm:
    """ill_at_once: nodes that are broken at the same time, so that the rest can serve; as many as there are: the brakes
    must hold."""

    rigging: Rigging
    seed: int
    ill_at_once: int = ILL_AT_ONCE
    truth: Truth = field(default_factory=Truth)
    answered: list[Injected] = field(default_factory=list)
    done: collections.Counter[str] = field(default_factory=collections.Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.toxics = Toxics(self.rigging, self._random)
        self.people = People(self.toxics, self.truth, self._random)
        self._actions: dict[Callable[[], Awaitable[bool]], int] = {
            self._break_chip: 16,
            self._heal: 30,
            self._flicker: 8,
            self._fail_pod: 6,
            self._kill_node: 3,
            self.toxics.spoil_api: 10,
            self.toxics.spoil_redis: 6,
            self.toxics.lose_redis: 1,
            self.toxics.fill_redis: 1,
            self.toxics.kill_agent: 1,
            self.toxics.freeze_agent: 1,
            self.toxics.kill_replica: 1,
            self.toxics.freeze_replica: 1,
            self.toxics.cordon: 2,
            self.toxics.cut_watches: 2,
            self._opt_out: 2,
            self.people.strip_taint: 3,
            self.people.taint_otherwise: 2,
            self.people.isolate: 2,
            self._release: 2,
            self.people.pause: 1,
            self.people.flood: 1,
            self.people.lie: 1,
        }

    async def blow(self, steps: int) -> None:
        """So many steps, each something that happens."""
        names, weights = list(self._actions), list(self._actions.values())
        while sum(self.done.values()) < steps:
            await self.toxics.end_what_is_due()
            action = self._random.choices(names, weights)[0]
            if await action():
                self.done[action.__name__.strip("_")] += 1
            await self._look()
            await asyncio.sleep(self._random.uniform(*PAUSE_S))  # the pace of the storm; nothing is hoped for

    async def calm(self, *, answered: bool = True) -> None:
        """Toxics end; the steady faults must be answered, then all is healed and everything must be as before."""
        await self.toxics.end_all()
        if answered:
            await self._until("every fault answered", self._all_answered)
        for fault in self.truth.standing():
            await self._mend(fault)
        await self._until("everything healed", self._all_well)

    async def begin(self) -> None:
        """Until one replica leads, the other waits, every agent listens, and all pods are Ready."""
        await self._until("begun", self._all_begun)
        await self._until("well", self._all_well)

    async def _all_begun(self) -> str:
        rigging = self.rigging
        late = [replica.name for replica in rigging.replicas if "ascendjobs: " not in replica.said]
        late += [agent.name for agent in rigging.agents.values() if "subscribed to" not in agent.said]
        leads = any("leads now" in replica.said for replica in rigging.replicas)
        return ", ".join(late) or ("" if leads else "nobody leads")

    async def _until(self, what: str, holds: Callable[[], Awaitable[str]]) -> None:
        deadline = time.monotonic() + CALM_S
        while missing := await holds():
            assert time.monotonic() < deadline, f"seed {self.seed}: not {what} within {CALM_S:g} s: {missing}"
            await asyncio.sleep(0.2)

    async def _all_answered(self) -> str:
        await self._look()
        known = {id(fault) for fault in self.answered}
        return ", ".join(str(f) for f in self.truth.faults if f.steady and id(f) not in known)

    async def _all_well(self) -> str:
        world = self.rigging.world
        pods = [p for p in await world.pods() if ready(p) and "deletionTimestamp" not in p["metadata"]]
        if len(pods) != self.rigging.pods:
            return f"{len(pods)} of {self.rigging.pods} pods are Ready; {await self._troubled()}"
        held = [n["metadata"]["name"] for n in await world.node_objects() if isolated(n)]
        open_ones = [
            r["metadata"]["name"] for r in await world.recoveries() if not r["status"]["times"].get("finished")
        ]
        return f"still tainted: {held}" if held else f"still open: {open_ones}" if open_ones else ""

    async def _troubled(self) -> str:
        """The pods that do not serve and the recoveries that are open, for whoever reads why the calm did not come."""
        world = self.rigging.world
        pods = [
            f"{p['metadata']['name']} {p['status'].get('phase')} on {p['spec'].get('nodeName')}"
            for p in await world.pods()
            if not ready(p)
        ]
        recoveries = [
            f"{r['spec']['unit']} {r['status'].get('phase')}: {r['status'].get('reason')} {r['status'].get('message')}"
            for r in await world.recoveries()
            if not r["status"]["times"].get("finished")
        ]
        return f"pods {pods}, recoveries {recoveries}"

    async def _look(self) -> None:
        """Which steady faults have been answered by now."""
        waiting = [f for f in self.truth.standing() if f.steady and not any(f is known for known in self.answered)]
        if not waiting:
            return
        pods = [pod for pod in await self.rigging.world.pods() if pod["spec"].get("nodeName")]
        tainted = {n["metadata"]["name"] for n in await self.rigging.world.node_objects() if isolated(n)}
        for fault in waiting:
            if fault.kind == "pod":
                if all(pod["metadata"]["uid"] != fault.pod_uid for pod in pods):
                    fault.ended = time.monotonic()
                    self.answered.append(fault)
            elif fault.node in tainted and not any(_sits(pod, fault) for pod in pods):
                self.answered.append(fault)

    # -- faults --------------------------------------------------------------------------------------------------

    def _well(self) -> list[str]:
        ill = self.truth.ill_nodes()
        free = [name for name in self.rigging.world.nodes if name not in ill and self.people.free(name)]
        return free if len(ill) < self.ill_at_once else []

    async def _break_chip(self, *, steady: bool = True, node: str | None = None) -> bool:
        well = self._well()
        if not well:
            return False
        node, chip = node or self._random.choice(well), self._random.randrange(CHIPS)
        code = self._random.choice(RESTARTING + STAYING)
        restarts = code in RESTARTING
        self.truth.faults.append(Injected("chip", node, time.monotonic(), chip, code, restarts=restarts, steady=steady))
        self.rigging.hosts[node].occur(chip, code, event=self._random.random() < 0.8)
        return True

    async def _flicker(self) -> bool:
        """A fault that goes whether anybody has seen it or not."""
        return await self._break_for_a_while()

    async def _break_for_a_while(self, node: str | None = None) -> bool:
        if not await self._break_chip(steady=False, node=node):
            return False
        fault = self.truth.faults[-1]
        self.toxics.later(self._random.uniform(0.1, 3.0), lambda: self._mend(fault))
        return True

    async def _opt_out(self) -> bool:
        """A node that the warden is told to leave alone breaks."""
        node = await self.people.opt_out()
        return node is not None and (not self._well() or await self._break_for_a_while(node))

    async def _release(self) -> bool:
        known = {id(fault) for fault in self.answered}
        return await self.people.release({fault.node for fault in self.truth.standing() if id(fault) not in known})

    async def _heal(self) -> bool:
        """Of those that were answered."""
        found = [f for f in self.truth.standing() if any(f is known for known in self.answered)]
        if not found and len(self.truth.ill_nodes()) == len(self.rigging.world.nodes):
            found = self.truth.standing("chip")  # held by the brakes: people heal it
        if not found:
            return False
        await self._mend(self._random.choice(found))
        return True

    async def _mend(self, fault: Injected) -> None:
        if fault.ended is not None or fault.kind == "pod":
            return
        if fault.kind == "chip":
            assert fault.chip is not None
            self.rigging.hosts[fault.node].recover(fault.chip, fault.code)
        else:
            await self.rigging.world.power(fault.node, on=True)
            self.toxics.busy.discard(fault.node)
            self.toxics.without_power.discard(fault.node)
            start(self.rigging.agents[fault.node])
        fault.ended = time.monotonic()

    async def _fail_pod(self) -> bool:
        found = [p for p in await self.rigging.world.pods() if ready(p) and "deletionTimestamp" not in p["metadata"]]
        if not found:
            return False
        pod = self._random.choice(found)
        fault = Injected("pod", pod["spec"]["nodeName"], time.monotonic(), pod_uid=pod["metadata"]["uid"])
        if not await self.rigging.world.fail(pod):
            return False
        self.truth.faults.append(fault)
        return True

    async def _kill_node(self) -> bool:
        """The machine and all on it; one at a time, for more is a storm that the warden holds."""
        well = [name for name in self._well() if name not in self.toxics.busy]
        if not well or self.truth.standing("node"):
            return False
        node = self._random.choice(well)
        self.toxics.busy.add(node)
        self.toxics.without_power.add(node)
        self.truth.faults.append(Injected("node", node, time.monotonic()))
        self.rigging.agents[node].kill()
        await self.rigging.world.power(node, on=False)
        return True


def _sits(pod: Object, fault: Injected) -> bool:
    """Whether a pod that should have been restarted is there yet."""
    if not fault.restarts or pod["spec"].get("nodeName") != fault.node:
        return False
    held = chips(pod)
    return bool(held) and (fault.kind == "node" or fault.chip in (held or ()))
