"""The nightly drill of deploy/components/drill: its own arguments, under its own account and no other rights."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.lab.children import NPU_WARDEN
from shared.names import DRILL_REPORT_ANNOTATION
from tests.deploy.manifests import DEPLOY, kubectl
from tests.integration.rig import Rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COMPONENT = DEPLOY / "components" / "drill"


@pytest.fixture
def account(rig: Rig) -> Iterator[Path]:
    """Its kubeconfig."""
    files = ["-f", str(COMPONENT / "rights.yaml"), "-f", str(COMPONENT / "cronjob.yaml")]
    kubectl(rig.plane, "apply", *files)
    yield rig.plane.kubeconfig_of("npuwarden-system", "npuwarden-drill")
    kubectl(rig.plane, "delete", *files)


def arguments() -> list[str]:
    job: dict[str, Any] = yaml.safe_load((COMPONENT / "cronjob.yaml").read_text())
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def test_its_arguments_and_its_rights_are_enough(rig: Rig, account: Path) -> None:
    rig.add_nodes(2)
    node = rig.nodes[0]
    rig.agent(node)
    reconciler = rig.reconciler()
    reconciler.leads()
    # The Service of the reconciler leads to no process here; and a loaded machine is no installation.
    mine = {"YOUR-NODE": node, "kubeconfig:": reconciler.url, "detect=15s,reverted=60s": "detect=60s,reverted=2m"}
    words = [mine.get(word, word) for word in arguments()]
    command = [*NPU_WARDEN, *words, "--kubeconfig", str(account)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{rig.tails()}"
    assert done.stdout.startswith("<testsuite ")
    kept = json.loads(rig.node(node)["metadata"]["annotations"][DRILL_REPORT_ANNOTATION])
    assert [one["phase"] for one in kept["phases"]] == ["detect", "reverted"]
