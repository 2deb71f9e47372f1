"""agent.toml: defaults, and one clear error for each mistake."""

from pathlib import Path

import pytest

from agent.config import AgentConfig, load, node_name
from shared.config import ConfigError


def write(directory: Path, text: str) -> Path:
    path = directory / "agent.toml"
    path.write_text(text)
    return path


def test_everything_has_a_default(tmp_path: Path) -> None:
    assert load(None) == load(write(tmp_path, "")) == AgentConfig()
    config = load(None)
    assert (config.poll.chips_s, config.poll.links_s, config.report.heartbeat_s) == (5, 30, 15)
    assert (config.debounce.recover_hold_s, config.debounce.lost_card_polls) == (1, 3)
    assert config.http.listen == ":9465"


def test_a_value_replaces_its_default_alone(tmp_path: Path) -> None:
    config = load(write(tmp_path, "[poll]\nchips_s = 2\n[redis]\nurl = 'rediss://r:6380/1'\n"))
    assert (config.poll.chips_s, config.poll.host_s, config.redis.url) == (2, 10, "rediss://r:6380/1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[poll]\nchip_s = 5\n", "chip_s", id="unknown key"),
        pytest.param("[pole]\n", "pole", id="unknown table"),
        pytest.param("[poll]\nchips_s = '5'\n", r"poll\.chips_s", id="wrong type"),
        pytest.param("[poll]\nchips_s = 0\n", r"poll\.chips_s: 0", id="no period"),
        pytest.param("[report]\nheartbeat_s = -1\n", r"report\.heartbeat_s", id="negative period"),
        pytest.param("[debounce]\nlost_card_polls = 0\n", r"debounce\.lost_card_polls", id="no poll at all"),
        pytest.param("[http]\nlisten = '9465'\n", r"http\.listen: '9465'", id="no address"),
        pytest.param("[poll\n", "not TOML", id="no TOML"),
    ],
)
def test_a_mistake_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=said) as told:
        load(path)
    assert str(path) in str(told.value)


@pytest.mark.parametrize(
    ("environ", "node", "expected"),
    [
        ({"NPUWARDEN_NODE": "a", "NODE_NAME": "b"}, "c", "a"),
        ({"NODE_NAME": "b"}, "c", "b"),
        ({}, "c", "c"),
    ],
)
def test_the_name_of_the_node(environ: dict[str, str], node: str, expected: str) -> None:
    assert node_name(AgentConfig(node=node), environ) == expected


def test_a_node_without_a_name_is_its_host() -> None:
    assert node_name(AgentConfig(), {})
