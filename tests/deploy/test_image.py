"""Images without a container engine: the Dockerfile done step by step, and run as a pod would run it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import COMPONENTS, DEPLOY, ROOT, documents, find, patches

SCRIPTS = ROOT / "scripts"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UV = shutil.which("uv") or str(Path.home() / ".cache/npu-warden/tools/bin/uv")
TARGETS = ["agent", "reconciler"]
DAEMONS = (("DaemonSet", "npuwarden-agent"), ("Deployment", "npuwarden-reconciler"))
ENVIRONMENT = {**os.environ, "UV": UV, "UV_LINK_MODE": "hardlink"}


def may_unshare() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    layers = "lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w"
    trial = f"mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w && mount -t overlay o -o {layers} /mnt"
    argv = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc", "sh", "-c", trial]
    return subprocess.run(argv, check=False, capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", TARGETS)
def test_the_image_is_built_and_runs_read_only_under_its_user(target: str) -> None:
    if not may_unshare():
        pytest.skip("needs root, mount namespaces and overlayfs")
    argv = [sys.executable, "-m", "scripts.verify_images", target]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=880, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert f"{target}: npu-warden" in done.stdout
    assert "starts, answers and ends, read-only" in done.stdout


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
    of_components = [obj for component in COMPONENTS for obj in patches(component)]
    mounts = [
        mount["mountPath"]
        for obj in [*documents(), *of_components]
        if (obj.get("kind"), obj["metadata"]["name"]) in DAEMONS and "spec" in obj
        for inside in obj["spec"]["template"]["spec"].get("containers", ())
        for mount in inside.get("volumeMounts", ())
    ]
    assert {"/etc/npu-warden-redis-tls", "/etc/npu-warden-webhook"} <= set(mounts)
    for place in mounts:
        assert place in usual or re.search(rf"{place}(\s|/)", DOCKERFILE), place
