"""Runs a scenario of kind `policy`: from reports and cluster objects to taints, deletions and recoveries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from console.scenario.common import Result, ScenarioError, convert
from console.scenario.policy_expect import failures
from console.scenario.policy_format import Operator, PolicyScenario, Report, Step
from console.scenario.policy_objects import check_object, merged, read_objects
from console.scenario.virtual import NoSuchObject, VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from reconciler.core.fold import BadObject
from reconciler.core.policy import Policy
from shared.model import Unknown


def run_policy(path: Path, raw: dict[str, Any]) -> Result:
    """Run one scenario file, already parsed; its objects files lie beside it. Raises ScenarioError."""
    scenario = convert(raw, PolicyScenario)
    found = play(scenario, start(path.parent, scenario))
    return Result(path=path, name=scenario.name, ok=not found, failures=found)


def play(scenario: PolicyScenario, cluster: VirtualCluster) -> list[str]:
    """The timeline from the start to its last step or expectation; what did not hold. Raises ScenarioError."""
    found: list[str] = []
    for at in sorted({*(step.at for step in scenario.timeline), *(expect.at for expect in scenario.expect)}):
        cluster.go_to(at)
        for number, step in enumerate(scenario.timeline):
            if step.at == at:
                take(step, cluster, f"timeline[{number}]")
        cluster.settle()
        for number, expect in enumerate(scenario.expect):
            if expect.at == at:
                try:
                    found += failures(expect, cluster)
                except NoSuchObject as exc:
                    raise ScenarioError(f"expect[{number}]: {exc}") from exc
    return found


def start(directory: Path, scenario: PolicyScenario) -> VirtualCluster:
    """The cluster at second 0."""
    objects = merged(read_objects(directory / name for name in scenario.objects), scenario.merge)
    policy = convert(scenario.policy, Policy, where="$.policy")
    item = scenario.recreate
    recreate = None if isinstance(item, str) else Recreate(item.after, item.ready, item.nodes)
    try:
        return VirtualCluster(objects, policy=policy, recreate=recreate)
    except ValueError as exc:
        raise ScenarioError(f"objects: {exc}") from exc


def take(step: Step, cluster: VirtualCluster, where: str) -> None:
    """Carry out one step of the timeline. Raises ScenarioError that names the step."""
    key, value = step.chosen
    try:
        _take(key, value, cluster, f"{where}.{key}")
    except (NoSuchObject, BadObject) as exc:
        raise ScenarioError(f"{where}.{key}: {exc}") from exc


def _take(key: str, value: Any, cluster: VirtualCluster, where: str) -> None:
    match key:
        case "report":
            _report(value, cluster)
        case "silent":
            cluster.silence(value)
        case "ready":
            cluster.set_ready(value.node, value.status)
        case "fail":
            cluster.fail(value.pod, exit_code=value.exit_code)
        case "merge":
            cluster.merge(value.target, value.patch)
        case "delete":
            cluster.delete(value)
        case "create":
            cluster.create(check_object(value, where))
        case "stuck":
            cluster.stick(value)
        case "redis":
            cluster.redis(up=value == "up")
        case "restart":
            cluster.restart_reconciler()
        case "refuse":
            cluster.refuse(value.verb, value.target, status=value.status, times=value.times)
        case "operator":
            _operator(value, cluster)


def _report(report: Report, cluster: VirtualCluster) -> None:
    wall = cluster.clock.wall()
    faults = [fault(item.chip, item.code, item.level, confirmed=item.confirmed) for item in report.faults]
    unknown = [Unknown(item.chip, "scenario", wall, "the scenario says so") for item in report.unknown]
    cluster.report(report.node, faults, unknown)


def _operator(operator: Operator, cluster: VirtualCluster) -> None:
    key, value = operator.chosen
    match key:
        case "isolate":
            cluster.isolate(value)
        case "release":
            cluster.release(value)
        case "pause":
            cluster.pause(value)
        case "resume":
            cluster.pause(None)
