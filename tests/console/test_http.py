"""The reconciler's HTTP against its own OpenAPI document: right questions, wrong ones, pages, filters, ETags."""

import http.client
import json
import urllib.parse
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.api import TITLE, routes
from reconciler.page.stream import Stream
from scripts.reference import Nobody
from shared.model import FaultLevel
from shared.openapi import STREAM
from shared.openapi import document as described
from tests.agent.json_schema import problems
from tests.console.conftest import Replica, add, broken
from tests.console.test_questions import recovery

Answer = tuple[int, str, Any, http.client.HTTPMessage]

NAMES = {"node": "alpha", "namespace": "serve", "name": "llm-recovered"}
"""What stands in paths."""


def ask(url: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """Status, media type, body (decoded JSON or text), headers."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        media = answer.headers.get_content_type()
        body = answer.readline() if media == STREAM else answer.read()  # a stream goes on for an hour
        return (
            answer.status,
            media,
            json.loads(body) if media.endswith("json") and body else body.decode(),
            answer.headers,
        )
    finally:
        connection.close()


def asked(path: str, query: dict[str, str]) -> str:
    return f"{path.format(**NAMES)}?{urllib.parse.urlencode(query)}"


def broken_promises(document: dict[str, Any], path: str, answer: Answer) -> list[str]:
    """What in an answer is not as the document says."""
    status, media, body, _ = answer
    answers = document["paths"][path]["get"]["responses"]
    content = answers.get(str(status), answers["default"]).get("content", {})
    if media not in content:
        return [f"{path}: {status} {media} is not described"]
    return list(problems(body, content[media]["schema"], document, path))


@pytest.fixture
def trouble(replica: Replica) -> Replica:
    """Faults on two nodes, two recoveries, a pod without an owner."""
    replica.say("alpha", broken(0), broken(1, FaultLevel.SUB_HEALTH))
    replica.say("spare-1", broken(3, FaultLevel.PRE_SEPARATE_NPU, confirmed=False))
    add(replica.world, recovery("WaitingForCapacity", reason="capacity", message="no room"), recovery("Recovered"))
    return replica


@pytest.fixture
def document(url: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(url, "/openapi.json")[2]
    return found


WHY = {"node": "alpha", "pod": "serve/llm-prefill-master-0", "workload": "serve/llm-prefill"}


@pytest.mark.usefixtures("trouble")
def test_every_route_answers_as_the_document_says(url: str, document: dict[str, Any]) -> None:
    for path in document["paths"]:
        for query in [{key: value} for key, value in WHY.items()] if path == "/v1/why" else [{}]:
            answer = ask(url, asked(path, query))
            assert answer[0] == 200, (path, query, answer[2])
            assert broken_promises(document, path, answer) == []


def test_no_leader_is_a_described_problem_everywhere(url: str, document: dict[str, Any], replica: Replica) -> None:
    replica.leads = False
    refused = set()
    for path in document["paths"]:
        answer = ask(url, path.format(**NAMES))
        assert broken_promises(document, path, answer) == []
        if answer[0] == 503:
            refused.add(path)
            assert "reconciler-7 leads" in answer[2]["detail"]
            assert answer[3]["Connection"] == "close", "behind a Service another connection may reach the leader"
    assert {"/v1/nodes", "/v1/why", "/v1/plan", "/v1/coverage"} <= refused
    assert "/v1/recoveries" not in refused


DOCUMENT = described(TITLE, routes(Nobody(), Stream(Nobody())))
"""No fixture of the test below: hypothesis prints the arguments of every example, and this is long."""
DESCRIBED = DOCUMENT["paths"]
VALUES = st.sampled_from(
    ["alpha", "serve/llm-prefill", "serve/llm-prefill-0", "", "0", "1", "5001", "-1", "²", "x" * 300, "{}", "%"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


def questions(path: str) -> st.SearchStrategy[tuple[str, dict[str, str]]]:
    """The path with any of its parameters, of good and bad values, and sometimes with one that it does not have."""
    of = {p["name"]: p["schema"].get("enum") for p in DESCRIBED[path]["get"]["parameters"] if p["in"] == "query"}
    optional = {name: st.sampled_from(enum) | VALUES if enum else VALUES for name, enum in of.items()}
    return st.tuples(st.just(path), st.fixed_dictionaries({}, optional={**optional, "colour": st.just("red")}))


@pytest.mark.usefixtures("trouble")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=st.one_of([questions(path) for path in sorted(DESCRIBED)]))
def test_whatever_is_asked_the_answer_is_described_and_no_bug(url: str, question: tuple[str, dict[str, str]]) -> None:
    path, query = question
    answer = ask(url, asked(path, query))
    assert answer[0] in (200, 400, 404), (path, query, answer[2])
    assert broken_promises(DOCUMENT, path, answer) == []
    if "colour" in query:
        assert answer[0] == 400


@pytest.mark.parametrize(
    ("path", "method", "status", "said"),
    [
        ("/v1/nothing", "GET", 404, "/v1/nothing"),
        ("/v1/nodes", "POST", 405, "GET"),
        ("/v1/nodes?limit=0", "GET", 400, "1..5000"),
        ("/v1/nodes?limit=all", "GET", 400, "1..5000"),
        ("/v1/nodes?continue=%7B", "GET", 400, "next"),
        ("/v1/nodes?verdict=bad", "GET", 400, "released"),
        ("/v1/nodes/absent", "GET", 404, "absent"),
        ("/v1/faults?level=Separate", "GET", 400, "SeparateNPU"),
        ("/v1/why", "GET", 400, "?node="),
        ("/v1/why?node=alpha&pod=a/b", "GET", 400, "one of"),
        ("/v1/why?node=alph", "GET", 404, "alpha"),
        ("/v1/coverage?only=some", "GET", 400, "gaps"),
    ],
)
def test_errors_are_problems_that_say_what_to_do(url: str, path: str, method: str, status: int, said: str) -> None:
    answered, media, body, _ = ask(url, path, method)
    assert (answered, media, body["status"]) == (status, "application/problem+json", status)
    assert said in body["detail"]


@pytest.mark.usefixtures("trouble")
@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/faults", "/v1/recoveries", "/v1/coverage"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5000])
def test_the_pages_together_are_the_whole_list(url: str, path: str, limit: int) -> None:
    whole = [_named(item) for item in ask(url, path)[2]["items"]]
    assert len(whole) >= 2, path
    found, token = [], ""
    while True:
        page = ask(url, f"{path}?limit={limit}{token and f'&continue={token}'}")[2]
        assert len(page["items"]) <= limit
        found += [_named(item) for item in page["items"]]
        if page["next"] is None:
            break
        token = page["next"]
    assert found == whole


def _named(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "report_age_s"}


def test_a_page_goes_on_where_it_was_although_items_have_gone(url: str, trouble: Replica) -> None:
    first = ask(url, "/v1/nodes?limit=2")[2]
    rest = [node["name"] for node in ask(url, "/v1/nodes")[2]["items"]][2:]
    for node in first["items"]:
        del trouble.world.nodes[node["name"]]
    assert [node["name"] for node in ask(url, f"/v1/nodes?continue={first['next']}")[2]["items"]] == rest


@pytest.mark.usefixtures("trouble")
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/nodes?verdict=fault", ["alpha", "spare-1"]),
        ("/v1/nodes?verdict=dead", []),
        ("/v1/faults?node=alpha", ["80E18402@0", "80E18402@1"]),
        ("/v1/faults?node=nobody", []),
        ("/v1/faults?level=PreSeparateNPU", ["80E18402@3"]),
        ("/v1/faults?code=80E18402&node=spare-1", ["80E18402@3"]),
        ("/v1/faults?code=81078603", []),
        ("/v1/recoveries?state=open", ["llm-waitingforcapacity"]),
        ("/v1/recoveries?state=finished", ["llm-recovered"]),
        ("/v1/recoveries?phase=Recovered", ["llm-recovered"]),
        ("/v1/recoveries?namespace=other", []),
    ],
)
def test_filters(url: str, path: str, shown: list[str]) -> None:
    status, _, body, _ = ask(url, path)
    assert status == 200
    assert [item.get("name") or item["id"] for item in body["items"]] == shown


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/faults", "/v1/recoveries", "/v1/warden", "/openapi.json"])
def test_what_has_not_changed_is_not_sent_again(url: str, path: str) -> None:
    _, _, _, headers = ask(url, path)
    status, _, body, again = ask(url, path, If_None_Match=headers["ETag"])
    assert (status, body, again["ETag"]) == (304, "", headers["ETag"])
    assert ask(url, path, If_None_Match='W/"another"')[0] == 200


def test_a_fault_changes_the_tag(url: str, replica: Replica) -> None:
    tag = ask(url, "/v1/nodes")[3]["ETag"]
    replica.say("alpha", broken(0))
    status, _, _, headers = ask(url, "/v1/nodes", If_None_Match=tag)
    assert status == 200
    assert headers["ETag"] != tag
