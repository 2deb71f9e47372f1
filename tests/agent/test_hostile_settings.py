"""Settings and files that are legal where they come from and nonsense here: one line that names them, nothing worse."""

import os
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from agent.config import AgentConfig, load, node_name
from agent.detect.detector import Detector
from agent.detect.rules import MAX_COMPLAINTS
from agent.detect.settings import DetectSettings
from agent.fault_config import FaultConfig
from agent.metrics import Metrics
from agent.sensors.kmsg import Kmsg
from shared import catalog
from shared.aio import now
from shared.config import ConfigError


@pytest.mark.parametrize("name", ["Node-A", "a b", "a\n", "../..", "node:a", "x" * 254])
@pytest.mark.parametrize("variable", ["NPUWARDEN_NODE", "NODE_NAME"])
def test_a_node_of_the_environment_that_is_none_is_named_with_its_variable(variable: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"environment: {variable}: "):
        node_name(AgentConfig(node="node-a"), {variable: name})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[redis]\ntimeout_s = 60", "redis.timeout_s"),  # /livez would call an agent dead whose Redis does not answer
        ("[report]\nheartbeat_s = 7200", "report.heartbeat_s"),  # its report would be gone from Redis before the next
        ('[probes.kubelet]\nurl = ""', "probes.kubelet.url"),  # else a fault of the kubelet
        ('[probes.kubelet]\nurl = "127.0.0.1:10248"', "probes.kubelet.url"),
        ('[probes.kubelet]\nurl = "file:///etc/passwd"', "probes.kubelet.url"),
        ('[probes.kubelet]\nurl = "http://[::1"', "probes.kubelet.url"),
        ('[probes.kubelet]\nurl = "http://h:99999/"', "probes.kubelet.url"),
        ('[http]\nlisten = "a..b:80"', "http.listen"),
        ('[http]\nlisten = "a\\u0000:80"', "http.listen"),
    ],
)
def test_a_value_that_could_never_work_is_refused_with_its_key(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert key in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", [b"fault\xff.json", b"a\nb.json"])
async def test_a_fault_file_with_a_name_that_is_no_text_is_told_and_counted(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).write_text("{}")
    metrics = Metrics()
    config = FaultConfig(tmp_path, Detector(catalog.load(), DetectSettings()), metrics)
    await config.refresh()
    (complaint,) = config.bad_entries()
    assert complaint.file.isprintable()
    assert "name" in complaint.why
    assert b"config_bad_entries" in generate_latest(metrics.registry)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"RestartNPUCodes":[' + ",".join(['"x"'] * 200_000) + "]}", id="nothing but bad codes"),
        pytest.param("{" + ",".join(f'"{n}":0' for n in range(80_000)) + ',"1":0}', id="unknown lists, one twice"),
        pytest.param('{"RestartNPUCodes":["' + "x" * 900_000 + '"]}', id="one endless code"),
        pytest.param('{"' + "x" * 900_000 + '":0}', id="one endless key"),
    ],
)
async def test_a_megabyte_of_nonsense_is_told_in_a_hundred_lines(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "faultCode.json").write_text(text)
    detector = Detector(catalog.load(), DetectSettings())
    config = FaultConfig(tmp_path, detector, Metrics())
    await config.refresh()
    told = config.bad_entries()
    assert 1 <= len(told) <= MAX_COMPLAINTS + 1
    assert sum(map(len, caplog.messages)) < 100_000
    assert all(len(str(complaint)) < 2000 for complaint in told)
    if len(told) > MAX_COMPLAINTS:
        assert "more entries are not used" in told[-1].why


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full"])
def test_a_file_that_never_ends_is_no_kernel_log(path: str) -> None:
    log = Kmsg(Path(path))
    for _ in range(2):
        with pytest.raises(OSError, match="not a kernel log"):
            log.new(now())
