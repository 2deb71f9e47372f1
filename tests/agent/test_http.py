"""The agent's HTTP against its own OpenAPI document, and against clients that ask wrongly or never stop asking."""

import contextlib
import http.client
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from console.lab.host import SimHost
from tests.agent.conftest import MakeAgent
from tests.agent.daemon import AgentProcess
from tests.agent.json_schema import problems
from tests.redis_server import RedisServer
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

DOCS = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
OF_THE_AGENT = DOCS.split("\n## The agent")[1].split("\n## ")[0]
ROUTES = set(re.findall(r"^\| `(/[^`]+)` \|", OF_THE_AGENT, re.MULTILINE))


@pytest.fixture
def agent(host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent) -> AgentProcess:
    return make_agent(host, redis_server.url)


def ask(agent: AgentProcess, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str, bytes]:
    """Status, media type, body."""
    connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read()


def get(agent: AgentProcess, path: str) -> Any:
    status, _, body = ask(agent, path)
    assert status == 200, body
    return json.loads(body)


def broken(document: dict[str, Any], path: str, answer: tuple[int, str, bytes]) -> list[str]:
    """What in an answer is not as the document says."""
    status, media, body = answer
    answers = document["paths"][path]["get"]["responses"]
    content = answers.get(str(status), answers["default"])["content"]
    if media not in content:
        return [f"{path}: {status} {media} is not described"]
    value = body.decode() if media == "text/plain" else json.loads(body)
    return list(problems(value, content[media]["schema"], document, path))


def test_every_route_answers_as_the_document_says(host: SimHost, agent: AgentProcess, tmp_path: Path) -> None:
    wait_until("the API", lambda: "HTTP on port" in agent.log, 40)
    document = get(agent, "/openapi.json")
    early = {path: ask(agent, path.format(phy=3)) for path in sorted(ROUTES)}
    agent.ready()
    host.occur(3, "80E01801")
    agent.until("the fault", lambda report: report.faults)
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "faultCode.json").write_text('{"SubHealthFaultCodes": ["80E18402", "?"]}')
    wait_until("the file", lambda: get(agent, "/v1/config")["rules"])

    assert document["paths"].keys() == ROUTES
    later = {path: ask(agent, path.format(phy=3)) for path in sorted(ROUTES)}
    assert {path: status for path, (status, _, _) in later.items() if status != 200} == {}
    for answers in (early, later):
        assert [broken(document, path, answer) for path, answer in answers.items()] == [[]] * len(ROUTES)
    for path, asked, status in [
        ("/v1/health", "/v1/health?strict=1", 503),
        ("/v1/health", "/v1/health?strict=yes", 400),
        ("/v1/health", "/v1/health?strikt=1", 400),
        ("/v1/chips", "/v1/chips?limit=3", 400),
        ("/v1/chips/{phy}", "/v1/chips/99", 404),
    ]:
        answer = ask(agent, asked)
        assert answer[0] == status, asked
        assert broken(document, path, answer) == []


def test_errors_are_problems_that_say_what_to_do(agent: AgentProcess) -> None:
    agent.ready()
    for path, method, status, said in [
        ("/v1/nothing", "GET", 404, "/v1/nothing"),
        ("/v1/chips", "POST", 405, "GET"),
        ("/v1/health?strict=yes", "GET", 400, "0, 1"),
        ("/v1/health?strikt=1", "GET", 400, "strict"),
        ("/v1/chips/99", "GET", 404, "0, 1, 2"),
    ]:
        answered, media, body = ask(agent, path, method)
        told = json.loads(body)
        assert (answered, media, told["status"]) == (status, "application/problem+json", status)
        assert said in told["detail"], told
    assert ask(agent, "/" + "x" * 20_000)[0] == 400, "a request line without end"
    assert ask(agent, "/v1/chips", "POST", b"x" * 5_000_000)[0] == 405, "a body that nobody asked for"


def test_the_configuration_in_force_and_where_it_comes_from(
    host: SimHost, redis_server: RedisServer, make_agent: MakeAgent, tmp_path: Path
) -> None:
    url = redis_server.url.replace("redis://", "redis://default:secret@")
    agent = make_agent(host, url)
    agent.ready()
    config = get(agent, "/v1/config")
    assert "secret" not in json.dumps(config)
    assert config["settings"]["redis"]["url"] == redis_server.url
    assert config["settings"]["poll"]["optics_s"] == 120, "defaults too"
    assert (config["files"], config["rules"], config["bad_entries"]) == ([], [], [])

    data = tmp_path / "faults"
    codes = {"SubHealthFaultCodes": ["80E18402"], "RestartNPUCodes": ["81078603", "80E18402x"]}
    switch = ["[0x08520003,na,L2,na]", "[0x00f103b0,155907,na,na]"]
    lowered = ("80E18402", "level", "SubHealthFault", "SeparateNPU", "faultCode.json", "SubHealthFaultCodes[0]")
    both = [
        (switch[0], "level", "SubHealthFault", "NotHandleFault", "SwitchFaultCode.json", "SubHealthFaultCodes[0]"),
        (switch[1], "level", "SubHealthFault", "SeparateNPU", "SwitchFaultCode.json", "SubHealthFaultCodes[1]"),
    ]
    volume(data, 0, {"faultCode.json": codes, "SwitchFaultCode.json": {"SubHealthFaultCodes": switch}})
    wait_until("the rules of both files", lambda: rules(agent) == {lowered, *both})
    volume(data, 1, {"faultCode.json": codes, "SwitchFaultCode.json": {"NotHandleFaultCodes": switch}})
    one = (switch[1], "level", "NotHandleFault", "SeparateNPU", "SwitchFaultCode.json", "NotHandleFaultCodes[1]")
    wait_until("the rules after the swap", lambda: rules(agent) == {lowered, one})
    bad = [(one["file"], one["key"]) for one in get(agent, "/v1/config")["bad_entries"]]
    assert bad == [("faultCode.json", "RestartNPUCodes[0]"), ("faultCode.json", "RestartNPUCodes[1]")]
    assert metric(agent, "faultCode.json") == 2
    assert metric(agent, "SwitchFaultCode.json") == 0

    volume(data, 2, {"SwitchFaultCode.json": "{"})
    wait_until("the built-in levels, and the last good content of the other", lambda: rules(agent) == {one})
    assert get(agent, "/v1/config")["files"] == [{"name": "SwitchFaultCode.json", "in_force": False}]
    assert "faultCode.json is gone; the built-in levels and rules hold again" in agent.log
    assert metric(agent, "SwitchFaultCode.json") == 1
    assert metric(agent, "faultCode.json") is None


def test_a_load_balancer_that_asks_by_head_is_told_the_same(
    host: SimHost, library: Path, redis_server: RedisServer, make_agent: MakeAgent
) -> None:
    agent = make_agent(host, redis_server.url)
    agent.ready()
    assert ask(agent, "/v1/health?strict=1", "HEAD") == (200, "application/json", b"")
    host.occur(3, "80E18402")
    agent.until("the fault", lambda report: report.faults)
    wait_until("a verdict that takes no work", lambda: ask(agent, "/v1/health?strict=1", "HEAD")[0] == 503)
    assert ask(agent, "/v1/health", "HEAD")[0] == 200


def test_every_rule_of_one_code_and_where_each_comes_from(agent: AgentProcess, tmp_path: Path) -> None:
    agent.ready()

    def of(code: str) -> list[tuple[Any, ...]]:
        fields = ("rule", "value", "builtin", "file", "key")
        found = get(agent, f"/v1/config?code={code}")["rules"]
        assert {rule["code"] for rule in found} <= {"80E18008", "81078603", "80E01801", "8FFFFFFF"}
        return [tuple(map(rule.get, fields)) for rule in found]

    level, frequency = of("80e18008")
    assert level == ("level", "RestartNPU", "RestartNPU", "built in", "")
    assert (frequency[0], frequency[1]["times"], frequency[3]) == ("frequency", 2, "built in")
    assert [rule[0] for rule in of("81078603")] == ["level", "frequency", "duration"]
    assert of("A8028802") == of("80E01801"), "both forms of a code"
    ((_, value, builtin, _, why),) = of("8FFFFFFF")
    assert (value, builtin) == ("PreSeparateNPU", None)
    assert "severity" in why
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults/faultCode.json").write_text('{"SubHealthFaultCodes": ["80E18008"]}')
    lowered = ("level", "SubHealthFault", "RestartNPU", "faultCode.json", "SubHealthFaultCodes[0]")
    wait_until("the file", lambda: of("80E18008")[0] == lowered)
    assert of("80E18008")[1] == frequency, "the other rule still ships"
    assert ask(agent, "/v1/config?code=80E1")[0] == 400


def rules(agent: AgentProcess) -> set[tuple[str, ...]]:
    fields = ("code", "rule", "value", "builtin", "file", "key")
    return {tuple(map(rule.get, fields)) for rule in get(agent, "/v1/config")["rules"]}


def volume(directory: Path, number: int, files: dict[str, Any]) -> None:
    """The files as kubelet mounts a ConfigMap: links to ..data, which is swapped."""
    directory.mkdir(exist_ok=True)
    (directory / f"..{number}").mkdir()
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / f"..{number}" / name).write_text(text)
    (directory / "..new").symlink_to(f"..{number}")
    (directory / "..new").replace(directory / "..data")
    for name in files:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    for link in directory.glob("*.json"):
        if not link.exists():
            link.unlink()


def metric(agent: AgentProcess, file: str) -> float | None:
    for line in ask(agent, "/metrics")[2].decode().splitlines():
        if line.startswith(f'npuwarden_agent_config_bad_entries{{file="{file}"}} '):
            return float(line.split()[-1])
    return None


@pytest.mark.parametrize("path", ["/metrics", "/v1/report", "/livez"])
def test_pipelined_requests_that_nobody_reads_hold_up_neither_a_health_check_nor_the_end(
    agent: AgentProcess, path: str
) -> None:
    agent.ready()
    flood = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 400
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", agent.port)))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.sendall(flood)
        assert ask(agent, "/livez")[0] == 200
        assert agent.terminate() < 5, "half a second on an idle machine"
