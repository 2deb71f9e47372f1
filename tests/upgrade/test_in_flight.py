"""A recovery that one version has begun and another carries on, forward and back.

data/VERSION/in-flight-*.yaml is a whole cluster as that version has left it: nodes, pods, owners, its Recovery.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from console.scenario.virtual import VirtualCluster, fault
from console.scenario.virtual_pods import Recreate
from shared.model import FaultLevel
from shared.names import ISOLATION_ANNOTATION
from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY, Object, kubectl
from tests.upgrade.test_recorded import with_more
from tests.waiting import wait_until

RECORDED = sorted((Path(__file__).parent / "data").glob("*/in-flight-*.yaml"))
VICTIMS = ("llm-prefill-master-0", "llm-prefill-worker-0")

each = pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: f"{path.parent.name} {path.stem}")


def objects_of(recorded: Path) -> list[Object]:
    return list(yaml.safe_load_all(recorded.read_text()))


def later(obj: Object) -> Object:
    """As a later version might have written it: a field more wherever the warden writes."""
    if obj["kind"] == "Recovery":
        return {**obj, "spec": with_more(obj["spec"]), "status": with_more(obj["status"])}
    notes = obj["metadata"].get("annotations", {})
    if obj["kind"] == "Node" and ISOLATION_ANNOTATION in notes:
        record = f'{notes[ISOLATION_ANNOTATION][:-1]},"addedLater":{{"x":[1]}}}}'
        return {**obj, "metadata": {**obj["metadata"], "annotations": {**notes, ISOLATION_ANNOTATION: record}}}
    return obj


def carried_on(objects: list[Object]) -> VirtualCluster:
    """Under a leader of this version, to the end: kubelets end what is terminating, the operator makes it again."""
    cluster = VirtualCluster(objects, recreate=Recreate(after=6, ready=10, nodes=("spare-1", "spare-2")))
    cluster.report("alpha", [fault(0, "80E18402", FaultLevel.SEPARATE_NPU)])
    cluster.run_until(2)
    for obj in objects:
        if "deletionTimestamp" in obj["metadata"]:
            cluster.delete(f"Pod/{obj['metadata']['namespace']}/{obj['metadata']['name']}")
    cluster.run_until(60)
    return cluster


@each
@pytest.mark.parametrize("version", ["forward", "back"])
def test_it_is_carried_on_to_its_end_once(recorded: Path, version: str) -> None:
    objects = objects_of(recorded)
    cluster = carried_on(objects if version == "forward" else [later(obj) for obj in objects])
    (recovery,) = cluster.recoveries
    (begun,) = [obj for obj in objects if obj["kind"] == "Recovery"]
    assert recovery["metadata"]["uid"] == begun["metadata"]["uid"], "no second one"
    assert recovery["status"]["phase"] == "Recovered", recovery["status"]
    assert recovery["status"]["times"]["detected"] == begun["status"]["times"]["detected"]
    pods = {pod["metadata"]["name"]: pod for pod in cluster.store.objects("pods")}
    before = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in objects if obj["kind"] == "Pod"}
    renewed = {name for name, pod in pods.items() if before.get(name) != pod["metadata"]["uid"]}
    assert pods.keys() == before.keys()
    assert renewed == set(VICTIMS), "its neighbour is not touched"


@pytest.fixture
def newer(control_plane: ControlPlane, tmp_path: Path) -> ControlPlane:
    """A cluster whose definition is a later version's: one field more in spec and status."""
    definition = yaml.safe_load((DEPLOY / "crd.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    for part in ("spec", "status"):
        schema: Any = version["schema"]["openAPIV3Schema"]["properties"][part]
        schema["properties"]["addedLater"] = {"type": "string"}
    path = tmp_path / "newer.yaml"
    path.write_text(yaml.safe_dump(definition))
    kubectl(control_plane, "apply", "--server-side", "--force-conflicts", "-f", str(path))
    wait_until("recoveries are served", lambda: "recoveries" in kubectl(control_plane, "api-resources", "-o", "name"))
    return control_plane


@pytest.mark.parametrize("phase", ["Isolating", "Deleting"])
def test_back_under_the_older_definition_an_open_recovery_can_be_finished(newer: ControlPlane, phase: str) -> None:
    (recovery,) = [
        obj
        for recorded in RECORDED
        for obj in objects_of(recorded)
        if obj["kind"] == "Recovery" and obj["status"]["phase"] == phase
    ]
    api, path = newer.api, "/apis/npuwarden.io/v1alpha1/namespaces/default/recoveries"
    spec, status = ({**recovery[part], "addedLater": "x"} for part in ("spec", "status"))
    head = {"apiVersion": recovery["apiVersion"], "kind": "Recovery", "metadata": {"generateName": "in-flight-"}}

    def made() -> Object | None:
        """Once the definition with the new field is in force."""
        obj: Object = api.post(path, {**head, "spec": spec, "status": status})
        if "addedLater" in obj["spec"]:
            return obj
        api.delete(f"{path}/{obj['metadata']['name']}")
        return None

    obj = wait_until("a recovery of the newer version", made)
    assert obj is not None
    mine = f"{path}/{obj['metadata']['name']}"
    try:
        kubectl(newer, "apply", "--server-side", "--force-conflicts", "-f", str(DEPLOY / "crd.yaml"))
        wait_until("the older definition", lambda: "addedLater" not in api.get(mine)["spec"])
        done = api.merge_patch(mine, {"status": {"phase": "Recovered", "holder": "older"}})
        assert done["status"]["times"] == recovery["status"]["times"], "what it knows is kept"
        assert done["spec"]["cause"] == recovery["spec"]["cause"]
        assert done["status"]["phase"] == "Recovered"
    finally:
        api.delete(mine)
