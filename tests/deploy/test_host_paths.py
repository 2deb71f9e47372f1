"""What DCMI and the vendor's tools need of a node, and how the agent's pod has it."""

import re
from pathlib import PurePosixPath

import pytest

from tests.deploy.manifests import DEPLOY, documents, find

POD = find(documents(), "DaemonSet", "npuwarden-agent")["spec"]["template"]["spec"]
(INSIDE,) = POD["containers"]
VOLUMES = {volume["name"]: volume for volume in POD["volumes"]}
AGENT_STAGE = (DEPLOY / "Dockerfile").read_text().split("FROM common AS agent\n")[1].split("\nFROM")[0]
LINKED = dict(re.findall(r"ln -s /proc/1/root(\S+) (\S+)", AGENT_STAGE))

MOUNTED = (
    "/usr/local/Ascend/driver",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/dcmi",
    "/usr/local/sbin/npu-smi",
    "/etc/hccn.conf",
    "/dev/davinci0",
    "/dev/davinci_manager",
    "/dev/devmm_svm",
    "/dev/hisi_hdc",
    "/dev/kmsg",
)
"""Of the host, at the same place. Source: MindCluster's manifests of device plugin and npu-exporter."""
OF_THE_HOSTS_FIRST_PROCESS = ("/usr/local/bin/npu-smi", "/etc/ascend_install.info", "/etc/vnpu.cfg")
"""Single files that may be missing: a mount would create them on the host, a link in the image finds them or not."""
OWN = ("/run/vnpu_cfg_lock", "/var/log/lingqu", "/var/log/nputools_LOG_ERR.log")
"""What the library writes: locks and logs of the pod's own, never the host's."""


def mount_of(path: str) -> tuple[str, str]:
    """Where the path is mounted, and the volume."""
    found = [
        (mount["mountPath"], mount["name"])
        for mount in INSIDE["volumeMounts"]
        if PurePosixPath(path).is_relative_to(mount["mountPath"])
    ]
    assert found, f"{path} is not mounted"
    return max(found, key=lambda one: len(one[0]))


@pytest.mark.parametrize("path", MOUNTED)
def test_what_the_driver_needs_is_the_hosts_at_its_own_place(path: str) -> None:
    place, name = mount_of(path)
    assert VOLUMES[name]["hostPath"]["path"] == place


@pytest.mark.parametrize("path", OF_THE_HOSTS_FIRST_PROCESS)
def test_single_files_are_looked_for_and_never_made(path: str) -> None:
    assert LINKED[path] == path
    assert POD["hostPID"], "else process 1 is the pod's own"


def test_no_other_single_file_is_mounted() -> None:
    """FileOrCreate makes an empty file on a node that has none."""
    files = [
        v["hostPath"]["path"] for v in VOLUMES.values() if v.get("hostPath", {}).get("type", "").startswith("File")
    ]
    assert files == ["/etc/hccn.conf"]


@pytest.mark.parametrize("path", OWN)
def test_what_the_library_writes_stays_in_the_pod(path: str) -> None:
    assert "emptyDir" in VOLUMES[mount_of(path)[1]]


def test_why_it_is_privileged_stands_beside_it() -> None:
    text = (DEPLOY / "agent.yaml").read_text()
    reason = re.search(r"((?: *# .*\n)+) *privileged: true", text)
    assert reason is not None
    assert "exclusive device namespaces" in reason[1]
    assert INSIDE["securityContext"]["privileged"] is True
    assert POD["automountServiceAccountToken"] is False
