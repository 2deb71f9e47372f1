"""Images without a container engine: the root that the Dockerfile makes, run as the image would run it."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, ROOT, documents, find

SCRIPTS = ROOT / "scripts"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UV = shutil.which("uv") or str(Path.home() / ".cache/npu-warden/tools/bin/uv")
TARGETS = ["agent", "reconciler"]
ENVIRONMENT = {**os.environ, "UV": UV, "UV_LINK_MODE": "hardlink"}


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Other users may look into it, which they may not into pytest's own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def may_unshare() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("target", TARGETS)
def test_the_image_runs_read_only_under_its_user(target: str, open_directory: Path) -> None:
    if not may_unshare():
        pytest.skip("needs root and mount namespaces")
    argv = [str(SCRIPTS / "check_image.sh"), target, str(open_directory / "root")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=380, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert f"{target}: starts, answers and ends, read-only" in done.stdout
    kept = [path.name for path in (open_directory / "root").glob("lib/python*/site-packages/kubernetes")]
    assert bool(kept) == (target == "reconciler"), "only the reconciler carries a client of Kubernetes"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_bill_of_materials_names_every_package_with_its_hash(target: str) -> None:
    argv = [str(SCRIPTS / "sbom.sh"), target]
    bill = json.loads(
        subprocess.run(argv, capture_output=True, text=True, timeout=50, check=True, env=ENVIRONMENT).stdout
    )
    assert bill["bomFormat"] == "CycloneDX"
    packages = {item["name"]: item for item in bill["components"]}
    assert {"msgspec", "aiohttp", "redis"} <= packages.keys()
    assert all(item["version"] for item in packages.values())
    assert ("kubernetes" in packages) == (target == "reconciler")
    assert not packages.keys() & {"pytest", "mypy"}, "tools of development are in no image"


def test_an_image_is_made_by_the_script_that_is_checked() -> None:
    made = re.findall(r"^RUN scripts/image_root\.sh (\w+) ", DOCKERFILE, re.MULTILINE)
    assert made == TARGETS


def test_the_base_is_one_variable_and_images_are_not_built_unpinned() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) <= {"${BASE}", "build", "common"}
    argv = [str(SCRIPTS / "build_images.sh"), "docker.io/library/python:3.12-slim-bookworm"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "must be pinned" in done.stderr


@pytest.mark.parametrize(("target", "kind"), [("agent", "DaemonSet"), ("reconciler", "Deployment")])
def test_manifest_and_image_agree(target: str, kind: str) -> None:
    spec = find(documents(), kind, f"npuwarden-{target}")["spec"]["template"]["spec"]
    stage = DOCKERFILE.split(f"FROM common AS {target}\n")[1].split("\nFROM")[0]
    user = re.search(r"^USER (\d+):(\d+)$", stage, re.MULTILINE)
    wanted = spec["securityContext"]["runAsUser"] if target == "reconciler" else 0
    assert (int(user[1]) if user else 0) == wanted
    (inside,) = spec["containers"]
    command = re.search(r"^CMD (.+)$", stage, re.MULTILINE)
    assert command is not None
    assert json.loads(command[1]) == inside["args"]
    assert f"EXPOSE {inside['ports'][0]['containerPort']}" in stage


def test_a_read_only_root_has_all_mount_points() -> None:
    """A container runtime makes missing ones where it can; on a read-only root nobody should have to."""
    usual = {"/dev", "/run", "/tmp", "/var/log", "/usr/local/sbin"}
    for kind, name in (("DaemonSet", "npuwarden-agent"), ("Deployment", "npuwarden-reconciler")):
        (inside,) = find(documents(), kind, name)["spec"]["template"]["spec"]["containers"]
        for mount in inside["volumeMounts"]:
            assert mount["mountPath"] in usual or re.search(rf"{mount['mountPath']}(\s|/)", DOCKERFILE)
