"""isolate, release, pause, resume: what they write to a real-enough API server, and how they fail."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from console.lab.cluster.store import Store
from reconciler.core import clock
from shared.names import CONTROL_CONFIGMAP, ISOLATE_ANNOTATION, NAMESPACE, RELEASE_ANNOTATION
from tests.console.conftest import Run, written
from tests.process import free_ports


def annotations(store: Store) -> dict[str, Any]:
    node = store.get("nodes", "", "alpha")
    assert node is not None
    found: dict[str, Any] = node["metadata"].get("annotations") or {}
    return found


def paused(store: Store) -> str | None:
    found = store.get("configmaps", NAMESPACE, CONTROL_CONFIGMAP)
    return None if found is None else (found.get("data") or {}).get("paused")


def test_isolate_and_release_replace_each_other(run: Run, store: Store, kubeconfig: str) -> None:
    result = run("isolate", "alpha", "--reason", "fan replaced", "--kubeconfig", kubeconfig)
    assert result.exit_code == 0, result.stderr
    assert "alpha" in result.output
    assert annotations(store) == {ISOLATE_ANNOTATION: "fan replaced"}
    assert run("release", "alpha", "--kubeconfig", kubeconfig).exit_code == 0
    assert annotations(store) == {RELEASE_ANNOTATION: "by hand"}


def test_pause_makes_the_config_map_and_resume_ends_it(run: Run, store: Store, kubeconfig: str) -> None:
    assert run("resume", "--kubeconfig", kubeconfig).exit_code == 0  # nobody ever paused
    assert run("pause", "--reason", "upgrade", "--kubeconfig", kubeconfig).exit_code == 0
    assert paused(store) == "upgrade"
    assert run("pause", "--reason", "still", env={"KUBECONFIG": kubeconfig}).exit_code == 0
    assert paused(store) == "still"
    assert run("resume", "--kubeconfig", kubeconfig).exit_code == 0
    assert paused(store) is None


def test_what_was_said_before_is_told(run: Run, kubeconfig: str) -> None:
    def said(*args: str) -> str:
        return run(*args, "--kubeconfig", kubeconfig).output

    assert "was not paused" in said("resume")
    assert "replaces" not in said("pause", "--reason", "upgrade")
    assert "replaces the reason given before (upgrade)" in said("pause", "--reason", "switch work")
    assert said("resume") == "resumed (was paused: switch work)\n"
    assert "was not paused" in said("resume")
    said("isolate", "alpha", "--reason", "fan")
    assert "replaces the reason given before (fan)" in said("isolate", "alpha", "--reason", "power")
    assert "isolated by hand (power)" in said("release", "alpha")


def test_hands_speak_json(run: Run, kubeconfig: str) -> None:
    result = run("isolate", "alpha", "--json", "--kubeconfig", kubeconfig)
    assert json.loads(result.output) == {"node": "alpha", "isolate": "by hand", "before": None}


def test_an_unknown_node_is_a_usage_error(run: Run, kubeconfig: str) -> None:
    result = run("isolate", "zulu", "--kubeconfig", kubeconfig)
    assert result.exit_code == 2
    assert "zulu" in result.stderr


@pytest.mark.parametrize(("status", "code"), [(403, 2), (500, 3)])
def test_what_the_api_server_refuses(status: int, code: int, run: Run, store: Store, kubeconfig: str) -> None:
    store.refuse("patch", "Node/alpha", status)
    result = run("isolate", "alpha", "--kubeconfig", kubeconfig)
    assert result.exit_code == code
    assert "node alpha" in result.stderr
    assert annotations(store) == {}


def test_an_api_server_that_does_not_answer(run: Run, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    result = run("pause", "--kubeconfig", written(tmp_path, f"http://127.0.0.1:{port}"))
    assert result.exit_code == 3
    assert f"127.0.0.1:{port}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_kubeconfig(run: Run, tmp_path: Path) -> None:
    result = run("pause", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert str(tmp_path / "none") in result.stderr


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)])
def test_a_pause_may_end_by_itself(run: Run, store: Store, kubeconfig: str, text: str, seconds: int) -> None:
    before = time.time()
    result = run("pause", "--for", text, "--kubeconfig", kubeconfig, "--json")
    assert result.exit_code == 0, result.stderr
    found = store.get("configmaps", NAMESPACE, CONTROL_CONFIGMAP)
    assert found is not None
    until = clock.parse(found["data"]["paused_until"])
    assert until is not None
    assert before + seconds - 1 <= until <= time.time() + seconds
    assert json.loads(result.stdout)["until"] == found["data"]["paused_until"]
    assert (
        f"it was to end at {clock.seconds(until)}, which is gone too" in run("pause", "--kubeconfig", kubeconfig).output
    )
    found = store.get("configmaps", NAMESPACE, CONTROL_CONFIGMAP)
    assert found is not None
    assert "paused_until" not in found["data"], "a pause without end replaces one with"


@pytest.mark.parametrize("text", ["30", "0s", "-5m", "5 m", "400d", "m", "1e3s"])
def test_a_bad_duration_is_a_usage_error_that_shows_good_ones(run: Run, kubeconfig: str, text: str) -> None:
    result = run("pause", "--for", text, "--kubeconfig", kubeconfig)
    assert result.exit_code == 2
    assert "30m" in result.stderr
