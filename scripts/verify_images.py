"""Builds and runs the images of deploy/Dockerfile without a container engine, as far as that goes.

    python -m scripts.verify_images agent|reconciler        (root, unshare, overlayfs; the network, as the build itself)

Every step of the Dockerfile is done as it stands there: each stage is a layer of overlayfs over this machine's root,
in place of the base image, with a virtual environment as the base's Python; RUN in a chroot, COPY from what
.dockerignore lets through. Then the image's command runs from the finished layers, which cannot be written to, under
the image's user and environment, with the manifest's mounts and configuration, and has to start, answer and end.
Not covered: the base image itself, the container runtime, a driver.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scripts.dockerfile import DockerfileError, Stage, copied, in_context, pairs, parse, substituted

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
WORKLOADS = {"agent": ("DaemonSet", "agent.yaml"), "reconciler": ("Deployment", "reconciler.yaml")}
HIDDEN = ("/home", "/root", "/srv", "/tmp", "/var/tmp", "/work", "/opt")
"""Of this machine: a base image has nothing there."""
PASSED = ("PIP_", "UV_INDEX", "SSL_", "HTTP", "http", "no_proxy", "NO_PROXY")
"""Environment of the build itself: where packages come from here."""
BASE_PYTHON = "/usr/lib/base-python"
START_S = 90.0
CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"


class Failed(Exception):
    """The image is not what it should be; the message says what."""


@dataclass
class Image:
    """layers: directories, the newest first, over the base."""

    layers: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)

    def on_top(self, layer: Path) -> Image:
        return Image([layer, *self.layers], dict(self.env), self.workdir, self.user, self.entrypoint, self.cmd)


class Builder:
    """Below `work`, in a mount namespace of its own: what it mounts goes with it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.arguments, self.stages = parse((DEPLOY / "Dockerfile").read_text())
        self.ignore = (DEPLOY / "Dockerfile.dockerignore").read_text()
        self.images: dict[str, Image] = {}
        self._mounted = 0

    def image(self, name: str) -> Image:
        """Of a stage, built once; any other name is the base's."""
        stage = self.stages.get(name)
        if stage is None:
            if name != self.arguments["BASE"]:
                raise Failed(f"{name} is neither a stage nor the base")
            stage = Stage(name, "")
        if name not in self.images:
            self.images[name] = self._base() if not stage.base else self._built(stage)
        return self.images[name]

    def _layer(self) -> Path:
        layer = Path(tempfile.mkdtemp(prefix="layer-", dir=self.work))
        layer.chmod(0o755)
        return layer

    def _base(self) -> Image:
        layer = self._layer()
        for place in HIDDEN:
            hidden = layer / place.lstrip("/")
            hidden.mkdir(parents=True)
            os.setxattr(hidden, "trusted.overlay.opaque", b"y")
        for place in ("/tmp", "/var/tmp"):
            (layer / place.lstrip("/")).chmod(0o1777)
        (layer / sys.base_prefix.lstrip("/")).mkdir(parents=True, exist_ok=True)
        image = Image().on_top(layer)
        image.env["PATH"] = f"{BASE_PYTHON}/bin:/usr/local/bin:/usr/bin:/bin"
        self.run(image, f"{sys.base_prefix}/bin/python3 -m venv {BASE_PYTHON}", {})
        return image

    def _built(self, stage: Stage) -> Image:
        before = self.image(stage.base)
        layer = self._layer()
        image, arguments = before.on_top(layer), dict[str, str]()
        for instruction, text in stage.steps:
            known = {**arguments, **image.env}
            match instruction:
                case "RUN":
                    self.run(image, text, arguments)
                case "COPY":
                    self._copy(image, text)
                case "ARG":
                    arguments |= pairs(text)
                case "ENV":
                    image.env |= pairs(substituted(text, known))
                case "WORKDIR":
                    image.workdir = text
                    (layer / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
                case "USER":
                    image.user = text
                case "ENTRYPOINT":
                    image.entrypoint, image.cmd = json.loads(text), []
                case "CMD":
                    image.cmd = json.loads(text)
                case "LABEL":
                    substituted(text, known)
        return image

    def mounted(self, image: Image, *, writable: bool) -> Path:
        """The root of it: its newest layer takes what is written, or nothing does."""
        self._mounted += 1
        root, scratch = self.work / f"root-{self._mounted}", self.work / f"work-{self._mounted}"
        root.mkdir()
        scratch.mkdir()
        lower = ":".join(map(str, [*(image.layers[1:] if writable else image.layers), "/"]))
        upper = [f"upperdir={image.layers[0]}", f"workdir={scratch}"] if writable else []
        mount("-t", "overlay", "overlay", "-o", ",".join([f"lowerdir={lower}", *upper]), str(root))
        interpreter = root / sys.base_prefix.lstrip("/")
        mount("--bind", sys.base_prefix, str(interpreter))
        mount("-o", "remount,bind,ro", str(interpreter))
        mount("-t", "proc", "proc", f"{root}/proc")
        for place in ("/dev", "/sys"):
            mount("--rbind", place, f"{root}{place}")
        return root

    def run(self, image: Image, command: str, arguments: Mapping[str, str]) -> None:
        root = self.mounted(image, writable=True)
        passed = {key: value for key, value in os.environ.items() if key.startswith(PASSED)}
        inside = f"cd {image.workdir} && {command}"
        done = subprocess.run(
            [CHROOT, str(root), "/bin/sh", "-ec", inside],
            env={**passed, **arguments, **image.env},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        subprocess.run(["umount", "-R", "-l", str(root)], check=True)
        if done.returncode != 0:
            raise Failed(f"RUN {command}\n{done.stdout}{done.stderr}")

    def _copy(self, image: Image, text: str) -> None:
        stage, sources, destination = copied(text)
        target = image.layers[0] / os.path.join(image.workdir, destination).lstrip("/")
        for source in sources:
            place = target / Path(source).name if destination.endswith("/") else target
            if stage is not None:
                shutil.copytree(self.image(stage).layers[0] / source.lstrip("/"), place, symlinks=True)
                continue
            files = list(self._context(source))
            if not files:
                raise Failed(f"COPY {source}: nothing of that name reaches the build, see Dockerfile.dockerignore")
            for file in files:
                into = place / file.relative_to(source) if (ROOT / source).is_dir() else place
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, into)

    def _context(self, source: str) -> Iterator[Path]:
        whole = ROOT / source
        for path in [whole] if whole.is_file() else sorted(whole.rglob("*")):
            relative = path.relative_to(ROOT)
            if path.is_file() and in_context(str(relative), self.ignore):
                yield relative


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"mount {' '.join(words)}: {done.stderr.strip()}")


def of_the_manifest(target: str) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """The pod of a target, and the data of the ConfigMaps in its file."""
    kind, file = WORKLOADS[target]
    objects = [obj for obj in yaml.safe_load_all((DEPLOY / file).read_text()) if obj]
    pod = next(obj for obj in objects if obj["kind"] == kind)["spec"]["template"]["spec"]
    return pod, {obj["metadata"]["name"]: obj["data"] for obj in objects if obj["kind"] == "ConfigMap"}


def furnish(target: str, root: Path, port: int) -> None:
    """The manifest's mounts: its own configuration, empty ones for the rest. Each must have its place in the image."""
    pod, configuration = of_the_manifest(target)
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    owner = f"uid={pod.get('securityContext', {}).get('runAsUser', 0)}"
    for spec in container["volumeMounts"]:
        place, volume = root / spec["mountPath"].lstrip("/"), volumes[spec["name"]]
        if spec["mountPath"] == "/dev":
            continue  # this machine's is there
        if not place.exists():
            raise Failed(f"the image has no {spec['mountPath']}, and its root cannot be written to")
        if place.is_file():
            source = root.parent / f"file-{place.name}"
            source.write_text("")
            mount("--bind", str(source), str(place))
        else:
            mount("-t", "tmpfs", "-o", f"mode=755,{owner}", "tmpfs", str(place))
        files = configuration.get(volume.get("configMap", {}).get("name", ""), {})
        for name, text in files.items():
            if name == f"{target}.toml":
                text += f'\n[http]\nlisten = "127.0.0.1:{port}"\n'
                if target == "reconciler":
                    text += '\n[kube]\nkubeconfig = "kubeconfig"\n'
            into = place if place.is_file() else place / name
            if place.is_dir() or spec.get("subPath") == name:
                into.write_text(text)
        if target == "reconciler" and files:
            (place / "kubeconfig").write_text(json.dumps(nowhere()))
        if spec["name"] == "redis":
            (place / "password").write_text("unknown")
        if spec.get("readOnly"):
            mount("-o", "remount,bind,ro", str(place))


def nowhere() -> dict[str, Any]:
    """A kubeconfig of a cluster that does not answer."""
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    cluster = {"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}
    head = {"apiVersion": "v1", "kind": "Config", "current-context": "x"}
    return {**head, "contexts": [context], "clusters": [cluster], "users": [{"name": "x", "user": {}}]}


def as_pod(target: str, image: Image, root: Path) -> list[str]:
    """The words before the command: the image's user, and of its rights what the manifest leaves."""
    uid, _, gid = image.user.partition(":")
    words = [
        CHROOT,
        str(root),
        "setpriv",
        "--pdeathsig",
        "KILL",
        "--reuid",
        uid,
        "--regid",
        gid or uid,
        "--clear-groups",
    ]
    (container,) = of_the_manifest(target)[0]["containers"]
    if container["securityContext"].get("capabilities", {}).get("drop") == ["ALL"]:
        words += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    return words


def check(target: str, builder: Builder) -> str:
    """What was shown. Raises Failed."""
    image = builder.image(target)
    root = builder.mounted(image, writable=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    furnish(target, root, port)
    before, env = as_pod(target, image, root), {**image.env, "NODE_NAME": "node-a", "POD_UID": "uid"}

    def once(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*before, *words], env=env, capture_output=True, text=True, timeout=60, check=False)

    if once("/bin/sh", "-c", "echo > /written").returncode == 0:
        raise Failed("the root can be written to: nothing is checked")
    version = once(*image.entrypoint, "--version")
    if version.returncode != 0:
        raise Failed(f"--version: {version.stderr}")
    log = builder.work / "log"
    with log.open("w") as out:
        daemon = subprocess.Popen([*before, *image.entrypoint, *image.cmd], env=env, stdout=out, stderr=out)
    try:
        _answers(daemon, port, log)
        daemon.terminate()
        code = daemon.wait(30)
    finally:
        daemon.kill()
        daemon.wait()
    said = log.read_text()
    if code != 0:
        raise Failed(f"it ended with code {code}\n{said}")
    for bad in ("Traceback", "read-only file system", "permission denied"):
        if bad.lower() in said.lower():
            raise Failed(f"it said '{bad}'\n{said}")
    return f"{target}: {version.stdout.strip()} starts, answers and ends, read-only, as user {image.user}"


def _answers(daemon: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5):
                return
        except OSError as exc:
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"/livez does not answer: {exc}\n{log.read_text()}") from None
        time.sleep(0.2)


def main(target: str) -> int:
    if target not in WORKLOADS:
        print(f"verify_images: agent or reconciler, not {target!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="npu-warden-", dir="/var/tmp") as name:
        # Its own file system: the last layer goes when this process ends, whatever happens.
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", name)
        try:
            print(check(target, Builder(Path(name))))
        except (Failed, DockerfileError) as exc:
            print(f"verify_images {target}: {exc}", file=sys.stderr)
            return 1
        finally:
            subprocess.run(["umount", "-R", "-l", name], check=False)
    return 0


if __name__ == "__main__":
    if os.environ.get("NPUWARDEN_UNSHARED") != "1":
        os.environ["NPUWARDEN_UNSHARED"] = "1"
        words = [sys.executable, "-m", "scripts.verify_images", *sys.argv[1:]]
        # Of its own: mounts, which go with it, and process numbers, so that /proc/1/root is a root one may look into.
        own = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvp("unshare", ["unshare", *own, *words])
    sys.exit(main(*sys.argv[1:2] or [""]))
