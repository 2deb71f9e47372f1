"""Configuration in components: a whole file each, so what the plain one says must stand in it again."""

from pathlib import Path

import msgspec
import pytest

from agent.config import load
from reconciler.config import load_config
from tests.deploy.manifests import COMPONENTS, DEPLOY, Object, documents, find, patches

OBJECTS = documents()


def texts(key: str) -> list[tuple[str, str]]:
    """(component, the file's text) of those that set it."""
    return [(name, obj["data"][key]) for name in COMPONENTS for obj in patches(name) if key in obj.get("data", {})]


def named(found: list[tuple[str, str]]) -> list[object]:
    return [pytest.param(text, id=name) for name, text in found]


@pytest.mark.parametrize("text", named(texts("agent.toml")))
def test_of_the_agents_configuration_a_component_changes_redis_alone(text: str, tmp_path: Path) -> None:
    assert _but_redis_agent(text, tmp_path) == _but_redis_agent(
        find(OBJECTS, "ConfigMap", "npuwarden-agent")["data"]["agent.toml"], tmp_path
    )


def _but_redis_agent(text: str, directory: Path) -> Object:
    path = directory / "agent.toml"
    path.write_text(text)
    whole: Object = msgspec.to_builtins(load(path))
    del whole["redis"]
    return whole


@pytest.mark.parametrize("text", named(texts("reconciler.toml")))
def test_of_the_reconcilers_configuration_a_component_changes_redis_alone(text: str, tmp_path: Path) -> None:
    data = find(OBJECTS, "ConfigMap", "npuwarden-reconciler")["data"]
    (tmp_path / "policy.toml").write_text(data["policy.toml"])
    assert _but_redis_reconciler(text, tmp_path) == _but_redis_reconciler(data["reconciler.toml"], tmp_path)


def _but_redis_reconciler(text: str, directory: Path) -> Object:
    path = directory / "reconciler.toml"
    path.write_text(text)
    whole: Object = msgspec.to_builtins(load_config(path))
    del whole["redis"]
    return whole


def test_an_image_that_nobody_has_named_is_pulled_from_no_stranger() -> None:
    """A name without a registry is one of docker.io, where anybody may take it, and the agent is privileged."""
    files = [*DEPLOY.glob("*.yaml"), *DEPLOY.glob("components/*/*.yaml")]
    images = {
        line.partition("image:")[2].strip()
        for path in files
        for line in path.read_text().splitlines()
        if line.lstrip(" -").startswith("image:")
    }
    assert {image.partition(":")[0] for image in images} == {
        "localhost/npu-warden/agent",
        "localhost/npu-warden/reconciler",
        "docker.io/library/redis",
    }


def test_the_images_are_built_under_the_names_that_manifests_have() -> None:
    script = (DEPLOY.parent / "scripts/build_images.sh").read_text()
    assert "${2:-localhost/npu-warden}" in script
