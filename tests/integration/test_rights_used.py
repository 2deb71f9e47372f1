"""The audit log of the API server against deploy/rbac.yaml, both ways, after the tests of this directory.

tests/deploy/test_rights.py makes the same comparison with calls that no server has seen; here it is shown to know all.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.plane import ControlPlane
from tests.deploy.manifests import DEPLOY
from tests.deploy.test_rights import ANY, NAMED, Right, covers, granted, needed
from tests.integration.conftest import LEFT_OUT
from tests.integration.installation import ACCOUNT
from tests.integration.rig import Rig

COMPONENTS = [path for path in (DEPLOY / "components").glob("*/r*.yaml") if path.parent.name != "drill"]
"""Where components give the reconciler further rights; those of drills are another account's."""
PROGRAM = "npu-warden/"
"""So its requests name themselves."""
HERE = Path(__file__).parent
AFTER_A_CONFLICT = "read again after a conflict only, which tests/deploy/test_rights.py plays"
NOT_HIT = "read before a delete of its units; here no unit of it is hit by deleting"
NOT_SEEN = {
    ("", "configmaps", "get", "vcjob-fault-npu-cm"): AFTER_A_CONFLICT,
    ("", "configmaps", "get", "npuwarden-separated"): AFTER_A_CONFLICT,
    ("", "configmaps", "get", "npuwarden-control"): "nobody pauses the warden in these tests",
    ("mindcluster.huawei.com", "inferservices", "get", ANY): NOT_HIT,
    ("mindcluster.huawei.com", "instancesets", "get", ANY): NOT_HIT,
    ("ome.io", "inferenceservices", "get", ANY): "the kind is not defined in these tests",
    ("ome.io", "inferenceservices", "watch", ANY): "the kind is not defined in these tests",
}
"""Rights that no test of this directory needs to use, and why: group, resource, verb, name."""


def asked(plane: ControlPlane) -> list[dict[str, Any]]:
    """Each request of a reconciler that is about an object; tests ask with its account for what it must not have."""
    lines = plane.audit_log.read_text().splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be half written
    ours = [e for e in events if e["user"]["username"] == ACCOUNT and e.get("userAgent", "").startswith(PROGRAM)]
    return [event for event in ours if "objectRef" in event]


def needs_of(event: dict[str, Any]) -> Iterator[Right]:
    """What RBAC was asked for it. A patch that made its object was asked for `create` too."""
    ref = event["objectRef"]
    resource = "/".join(part for part in (ref["resource"], ref.get("subresource")) if part)
    name = ref.get("name", ANY) if ref["resource"] in NAMED or ref["resource"] == "endpointslices" else ANY
    made = event["verb"] == "patch" and event["responseStatus"]["code"] == 201
    for verb in (event["verb"], *(["create"] if made else [])):
        yield Right(ref.get("apiGroup", ""), resource, verb, ref.get("namespace", ANY), name)


def of_one_kind(right: Right) -> tuple[str, str, str, str]:
    """Without the namespace: the calls without a server have namespaces of their own."""
    return right.group, right.resource, right.verb, right.name


@pytest.fixture
def used(led: Rig) -> set[Right]:
    """By all reconcilers of this run so far; one at least has led."""
    return {need for event in asked(led.plane) for need in needs_of(event)}


def test_every_request_has_its_line_in_the_rights(used: set[Right]) -> None:
    """Also those that were refused: by a test that had taken a right away, or because it is really missing."""
    rights = [*granted(), *(right for path in COMPONENTS for right in granted(path))]
    assert [need for need in sorted(used) if not any(covers(right, need) for right in rights)] == []


async def test_the_comparison_without_a_server_knows_every_request(
    used: set[Right], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {need for need in used if any(covers(right, need) for right in granted())}  # without the components'
    known = {of_one_kind(need) for need in await needed(monkeypatch)}
    assert [need for need in sorted(base) if not {of_one_kind(need), (*of_one_kind(need)[:3], ANY)} & known] == []


def test_every_right_was_used(used: set[Right], request: pytest.FixtureRequest) -> None:
    unused = {r for r in granted() if not any(covers(r, need) and r.name in (ANY, need.name) for need in used)}
    left = sorted({of_one_kind(right) for right in unused} - NOT_SEEN.keys())
    ran = {item.path.name for item in request.session.items if item.path.parent == HERE}
    if left and (ran != {path.name for path in HERE.glob("test_*.py")} or request.config.stash.get(LEFT_OUT, False)):
        pytest.skip("tells only after all tests of this directory")
    if left and request.session.testsfailed:
        pytest.skip("tells only after tests that came to their end: what failed may have used the rest")
    assert left == []
