"""What is wrong with one object: each rule looks at what a walk through it has found, and says it with a line."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from console.cli.manifests_labels import STEERING
from console.cli.manifests_object import GRACE_KEY, Key, ManifestObject
from console.cli.manifests_yaml import Document, Problem, key_of, member, pairs, text_of
from reconciler.core.units import FAULT_RETRY_TIMES, FAULT_SCHEDULING, POD_RESCHEDULING, SUB_HEALTHY
from reconciler.workloads.ascendjob import ACTIVE_STANDBY

_READ_TOGETHER = frozenset({"AscendJob", "Job", "Deployment", "StatefulSet", "LeaderWorkerSet"})
"""Kinds whose labels all count for each of their units: two values of one key contradict each other."""

_OTHERS = frozenset({"ConfigMap", "Secret", "CustomResourceDefinition"})
"""Kinds in which such a key may stand for something else."""

_GROUP = "PodGroup"
_MIN_GRACE_S, _MAX_GRACE_S = 2, 900


def check_object(document: Document, root: yaml.Node) -> Iterator[Problem]:
    """Everything that is wrong with one object, in no order."""
    obj = ManifestObject(document, root)
    if not obj.kind or obj.kind in _OTHERS:
        return
    for key, value in obj.texts:
        yield from _not_text(obj, key, value)
    for found in obj.keys:
        yield from _misplaced(obj, found) if not found.counts else _of_no_use(obj, found)
    yield from _twice(obj)
    if obj.restarts:
        yield from _contradictions(obj)
        yield from _missing(obj)
        yield from _graces(obj)


def _not_text(obj: ManifestObject, key: str, value: yaml.Node) -> Iterator[Problem]:
    """A label or an annotation is text: YAML makes booleans of on and off, and numbers of digits."""
    tag = value.tag.rpartition(":")[2]
    if tag not in ("bool", "int", "float", "null", "map", "seq"):
        return
    written = text_of(value)
    if tag in ("null", "map", "seq"):
        yield obj.problem(value, f"`{key}` has no text for a value: the API server refuses the object")
        return
    what = f"the boolean {str(written.lower() in ('on', 'yes', 'true')).lower()}" if tag == "bool" else "a number"
    yield obj.problem(value, f'`{key}: {written}` is {what} to YAML, and labels are text: write {key}: "{written}"')


def _misplaced(obj: ManifestObject, found: Key) -> Iterator[Problem]:
    if found.at_home:
        yield obj.problem(found.node, f"nobody reads `{found.written}`: the key is `{found.key}`")
        return
    where = ".".join(found.path) or "the top level"
    an_annotation = " (an annotation)" if found.path[-1:] == ("annotations",) else ""
    spelled = "" if found.written == found.key else f" as `{found.key}`"
    text = f"nobody reads `{found.written}` in {where}{an_annotation}: it belongs{spelled} in {_home(obj, found.key)}"
    yield obj.problem(found.node, text)


def _home(obj: ManifestObject, key: str) -> str:
    """Where a key belongs, with the line where that is."""
    among = STEERING[key].among
    if obj.kind == "StormService" and among == "labels":
        return "metadata.labels of the role's pod template (spec.template.spec.roles[].template)"
    place = key_of(member(obj.root, "metadata"), among)
    return f"metadata.{among}" + (f" (line {obj.document.line(place)})" if place is not None else "")


def _of_no_use(obj: ManifestObject, found: Key) -> Iterator[Problem]:
    if not obj.restarts and obj.kind != _GROUP and not obj.has_controller:
        if found.key == FAULT_SCHEDULING:
            bare = obj.kind == "Pod"
            lost = "nothing would bring a bare pod back" if bare else f"pods of a {obj.kind} are not restarted"
            yield obj.problem(found.node, f"`{found.key}` has no effect: {lost}")
        return
    if found.value.tag.endswith(":str") and (wrong := STEERING[found.key].wrong(found.text, obj.infer)) is not None:
        yield obj.problem(found.value, f"`{found.key}`: {wrong}")
    if found.key == POD_RESCHEDULING and found.text == "on" and (why := _no_pod_level(obj, found)) is not None:
        yield obj.problem(found.node, f"`{found.key}` has no effect {why}")
    if found.key == FAULT_RETRY_TIMES and obj.kind == "AscendJob":
        on_job = any(other.path == ("metadata", "labels") for other in obj.counting(FAULT_RETRY_TIMES))
        if not on_job:
            text = "the operator reads it on the AscendJob alone, without it a first crash ends the job"
            yield obj.problem(found.node, f"`{found.key}`: {text}: it belongs in {_home(obj, found.key)}")


def _no_pod_level(obj: ManifestObject, found: Key) -> str | None:
    if not obj.restarts:
        return None  # a PodGroup, or a pod: what is above it decides
    if obj.kind == "AscendJob":
        if obj.app in ACTIVE_STANDBY:
            return None
        return f"on this AscendJob: only those with the label app {' or '.join(ACTIVE_STANDBY)} restart pod by pod"
    if obj.kind == "StormService":
        if not found.in_role:
            return f"here: it is read on the pods alone, it belongs in {_home(obj, found.key)}"
        size = next((size for role, size in _roles(obj) if _holds(role, found.node)), 1)
        return f"in a role with podGroupSize {size}: its PodSet restarts as a whole" if size > 1 else None
    return f"on a {obj.kind}"


def _roles(obj: ManifestObject) -> Iterator[tuple[yaml.Node, int]]:
    """The roles of a StormService and their podGroupSize."""
    roles = member(member(member(member(obj.root, "spec"), "template"), "spec"), "roles")
    for role in roles.value if isinstance(roles, yaml.SequenceNode) else ():
        size = text_of(member(role, "podGroupSize"))
        yield role, int(size) if size.isdecimal() else 1


def _holds(outer: yaml.Node, inner: yaml.Node) -> bool:
    """Whether a node is somewhere below another, aliases followed."""
    seen: set[int] = set()
    waiting = [outer]
    while waiting:
        node = waiting.pop()
        if node is inner:
            return True
        if id(node) not in seen:
            seen.add(id(node))
            waiting += [part for pair in pairs(node) for part in pair]
            waiting += node.value if isinstance(node, yaml.SequenceNode) else ()
    return False


def _twice(obj: ManifestObject) -> Iterator[Problem]:
    first: dict[tuple[int, str], Key] = {}
    for found in obj.keys:
        if first.setdefault((id(found.holder), found.written), found) is not found:
            yield obj.problem(found.node, f"`{found.written}` stands twice: only one of them is read")


def _contradictions(obj: ManifestObject) -> Iterator[Problem]:
    """Different values for one unit count as none."""
    for key in (FAULT_SCHEDULING, FAULT_RETRY_TIMES, POD_RESCHEDULING, SUB_HEALTHY):
        found = obj.counting(key)
        if obj.kind == "StormService":  # its roles are units of their own, what stands above them counts for each
            above = [item for item in found if not item.in_role]
            found = found if above else []
        elif obj.kind not in _READ_TOGETHER:
            continue
        for other in found[1:]:
            if other.text != found[0].text:
                first = f"{found[0].text!r} (line {obj.document.line(found[0].node)})"
                yield obj.problem(other.node, f"`{key}`: {other.text!r} contradicts {first}: two values count as none")


def _missing(obj: ManifestObject) -> Iterator[Problem]:
    found = [item for item in obj.keys if item.key == FAULT_SCHEDULING]
    if obj.kind == "StormService" and all(item.counts and item.in_role for item in found):
        for role, _ in _roles(obj):
            if not any(_holds(role, item.node) for item in found):
                name = text_of(member(role, "name")) or "without a name"
                yield obj.problem(role, f"role {name}: no `{FAULT_SCHEDULING}`, no fault restarts its pods")
    elif not found and (obj.asks_for_npus or obj.app in ACTIVE_STANDBY):
        text = f"no `{FAULT_SCHEDULING}`: no fault restarts it; write force or grace in metadata.labels"
        yield obj.problem(key_of(obj.root, "metadata") or obj.root, text)


def _graces(obj: ManifestObject) -> Iterator[Problem]:
    wishes = {(found.key, found.text) for found in obj.keys if found.counts}
    graceful = bool(wishes & {(FAULT_SCHEDULING, "grace"), (SUB_HEALTHY, "graceExit")})
    for node, value in obj.graces:
        seconds = text_of(value)
        if not value.tag.endswith(":int") or not seconds.isdecimal():
            yield obj.problem(node, f"`{GRACE_KEY}: {seconds}` is not a number of seconds")
        elif graceful and not _MIN_GRACE_S <= int(seconds) <= _MAX_GRACE_S:
            limit = f"with grace it is to be {_MIN_GRACE_S}..{_MAX_GRACE_S}"
            then = "after reschedule.grace_over_time_s (900 s by default) the pod is ended by force"
            yield obj.problem(node, f"`{GRACE_KEY}: {seconds}`: {limit}; {then}")
