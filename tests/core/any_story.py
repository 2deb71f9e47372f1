"""Any story of a cluster: faults that come and go, nodes that fall silent, people, refusals, outages, in any order.

Every step is plain data, so that a counterexample can be read and be made a test of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import strategies as st

from console import access
from console.lab.cluster.patches import merge_patch
from console.scenario.virtual import NoSuchObject, fault
from shared.model import Fault, FaultLevel
from shared.names import CONTROL_CONFIGMAP, NAMESPACE, OPT_OUT_LABEL
from tests.core.watched_cluster import WatchedCluster

FOREIGN = {"key": "example.com/theirs", "effect": "NoSchedule"}
LEVELS = (
    FaultLevel.SEPARATE_NPU,
    FaultLevel.RESTART_BUSINESS,
    FaultLevel.RESTART_REQUEST,
    FaultLevel.PRE_SEPARATE_NPU,
    FaultLevel.SUB_HEALTH,
)
GAPS_S = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 12.0, 30.0, 70.0)


@dataclass(frozen=True, slots=True)
class Step:
    """gap_s: seconds since the step before. what: the name of a method below. node, number: to whom, or how much."""

    gap_s: float
    what: str
    node: int = 0
    number: int = 0
    word: str = ""


def _faults() -> st.SearchStrategy[str]:
    """`level/chip/confirmed`, one or two of them."""
    one = st.builds(
        lambda level, chip, sure: f"{level.value}/{chip}/{sure}",
        st.sampled_from(LEVELS),
        st.sampled_from(("3", "5", "node")),
        st.sampled_from(("yes", "yes", "yes", "no")),
    )
    return st.lists(one, min_size=1, max_size=2, unique=True).map(",".join)


def _plain(*names: str) -> st.SearchStrategy[Step]:
    gap, small = st.sampled_from(GAPS_S), st.integers(0, 5)
    return st.builds(Step, gap, st.sampled_from(names), small, small)


STEPS = st.one_of(
    st.builds(Step, st.sampled_from(GAPS_S), st.just("report"), st.integers(0, 5), st.just(0), _faults()),
    st.builds(Step, st.sampled_from(GAPS_S), st.just("report"), st.integers(0, 5), st.just(0), _faults()),
    _plain("heal", "heal", "silent", "not_ready", "ready", "fail", "fail", "delete", "stick"),
    _plain("cordon", "foreign", "opt_out", "isolate", "release", "release", "pause", "resume", "new_leader"),
    _plain("strike"),
    _plain("strike", "strike_untaintable"),
    st.builds(Step, st.sampled_from((30.0, 70.0)), st.just("fail"), st.just(0), st.integers(0, 1)),
    _plain("redis_down", "redis_up"),
    st.builds(
        Step,
        st.sampled_from(GAPS_S),
        st.just("refuse"),
        st.sampled_from((409, 429, 500)),
        st.integers(1, 6),
        st.sampled_from(("PATCH Node", "POST Recovery", "PATCH Recovery", "DELETE Pod", "GET Pod", "GET Node")),
    ),
)


def faults_of(text: str) -> list[Fault]:
    found = []
    for part in text.split(","):
        level, chip, sure = part.split("/")
        subject = "node" if chip == "node" else int(chip)
        code = f"8{list(FaultLevel).index(FaultLevel(level)):02d}18402"
        found.append(fault(subject, code, FaultLevel(level), confirmed=sure == "yes"))  # type: ignore[arg-type]
    return found


def play(story: Sequence[Step], cluster: WatchedCluster) -> None:
    """From a quiet start to half a minute after the last step, and then everything is whole again."""
    cluster.run_until(10)
    for step in story:
        cluster.run_until(cluster.clock.t + step.gap_s)
        take(step, cluster)
    cluster.run_until(cluster.clock.t + 30)
    heal(cluster)


def take(step: Step, cluster: WatchedCluster) -> None:
    """Let it happen now. What is not there (any more) is left alone."""
    name = cluster.layout.nodes[step.node % len(cluster.layout.nodes)]
    pod = f"ml/{cluster.layout.pods[step.number % len(cluster.layout.pods)]}"
    if step.what == "refuse":
        cluster.warden.refuse(*step.word.split(), status=step.node, times=step.number)
        return
    deeds: dict[str, Callable[[], None]] = {
        "report": lambda: cluster.report(name, faults_of(step.word)),
        "strike": lambda: _strike(cluster, pod),
        "strike_untaintable": lambda: _strike(cluster, pod, taint_fails=5),
        "heal": lambda: cluster.report(name),
        "silent": lambda: cluster.silence(name),
        "not_ready": lambda: cluster.set_ready(name, "Unknown"),
        "ready": lambda: cluster.set_ready(name, "True"),
        "fail": lambda: _fail(cluster, pod),
        "delete": lambda: cluster.delete(f"Pod/{pod}"),
        "stick": lambda: cluster.stick(name),
        "cordon": lambda: cluster.merge(f"Node/{name}", {"spec": {"unschedulable": True}}),
        "foreign": lambda: _foreign(cluster, name),
        "opt_out": lambda: cluster.merge(f"Node/{name}", {"metadata": {"labels": {OPT_OUT_LABEL: "true"}}}),
        "isolate": lambda: cluster.isolate(name),
        "release": lambda: cluster.release(name),
        "pause": lambda: _pause(cluster, 10.0 * step.number),
        "resume": lambda: cluster.pause(None),
        "new_leader": cluster.restart_reconciler,
        "redis_down": lambda: cluster.redis(up=False),
        "redis_up": lambda: cluster.redis(up=True),
    }
    try:
        deeds[step.what]()
    except NoSuchObject:
        return


def _fail(cluster: WatchedCluster, pod: str) -> None:
    cluster.fail(pod)
    group = cluster.layout.groups.get(pod.removeprefix("ml/"))
    if group is not None and group.mends_itself:
        cluster.delete(f"Pod/{pod}")


def _strike(cluster: WatchedCluster, pod: str, *, taint_fails: int = 0) -> None:
    """The node that this pod runs on now has a fault that hits whatever runs there."""
    if taint_fails:
        cluster.warden.refuse("PATCH", "Node", status=500, times=taint_fails)
    found = cluster.store.get("pods", "ml", pod.removeprefix("ml/"))
    if found is not None and found["spec"].get("nodeName"):
        cluster.report(found["spec"]["nodeName"], faults_of("SeparateNPU/3/yes,RestartBusiness/5/yes"))


def _foreign(cluster: WatchedCluster, name: str) -> None:
    found = cluster.store.get("nodes", "", name) or {}
    taints = (found.get("spec") or {}).get("taints") or []
    if FOREIGN not in taints:
        cluster.merge(f"Node/{name}", {"spec": {"taints": [*taints, FOREIGN]}})


def _pause(cluster: WatchedCluster, seconds: float) -> None:
    """With an end, or (0 seconds) without one."""
    until = None
    if seconds:
        until = datetime.fromtimestamp(cluster.clock.wall() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": CONTROL_CONFIGMAP, "namespace": NAMESPACE}
    control = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    current = cluster.store.get("configmaps", NAMESPACE, CONTROL_CONFIGMAP) or control
    cluster.store.load(merge_patch(current, access.pausing("by hand", until)))


def heal(cluster: WatchedCluster) -> None:
    """Everything is well again: people take back what they did, the hardware is whole, and there is room."""
    cluster.pause(None)
    cluster.redis(up=True)
    cluster.warden.refuse_nothing()
    for name in cluster.layout.nodes:
        found = cluster.store.get("nodes", "", name) or {}
        taints = [taint for taint in (found.get("spec") or {}).get("taints") or [] if taint != FOREIGN]
        spec = {"unschedulable": None, "taints": taints or None}
        notes = {"npuwarden.io/isolate": None}
        labels = {OPT_OUT_LABEL: None}
        cluster.merge(f"Node/{name}", {"metadata": {"annotations": notes, "labels": labels}, "spec": spec})
        cluster.set_ready(name, "True")
        cluster.report(name)
    cluster.unstick()
    cluster.add_room()
