"""What stays of a restart on a real API server: codes in the Recovery, logs beside it as far as kubelets gave them in
time, all of it gone with the Recovery; and a webhook that was told of both."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from console.main import main
from reconciler.webhook import SIGNATURE, TIMESTAMP, signature
from tests.cluster.api import ApiError
from tests.integration.installation import COLLECTIONS, ROOT
from tests.integration.kubelet import kubelet, runs_on
from tests.integration.reports import CHIP, chip_fault, say
from tests.integration.rig import HBM, POLICY, PREFILL, RECOVERIES, Rig
from tests.integration.test_ranktable import ensure
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]
COMPONENT = ROOT / "deploy" / "components" / "evidence"
SECRET = b"open sesame"


@pytest.fixture
def component(rig: Rig) -> Iterator[None]:
    """deploy/components/evidence, taken away again: the other tests run where nobody has installed it."""
    made = []
    for name in ("rbac.yaml", "admission.yaml"):
        for obj in yaml.safe_load_all((COMPONENT / name).read_text()):
            ensure(rig.api, COLLECTIONS[obj["kind"]], obj)
            made.append(f"{COLLECTIONS[obj['kind']]}/{obj['metadata']['name']}")
    yield
    for path in made:
        rig.api.delete(path)


class Receiver(HTTPServer):
    """Notices that came with a good signature."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.notices: list[dict[str, Any]] = []

    @property
    def events(self) -> set[str]:
        return {notice["event"] for notice in self.notices}


class _Post(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers[SIGNATURE] == signature(SECRET, self.headers[TIMESTAMP], body):
            self.server.notices += json.loads(body)["notices"]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


@pytest.mark.usefixtures("component")
def test_what_stays_of_a_restart(rig: Rig, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    with kubelet(rig.plane) as server, receiving() as receiver:
        hook = {"urls": [f"http://127.0.0.1:{receiver.server_port}/hook"], "secret_file": str(secret)}
        reconciler = rig.reconciler(policy={**POLICY, "evidence": {"logs": True}, "webhook": hook})
        reconciler.leads()
        rig.add_nodes(3)
        for node in rig.nodes:
            runs_on(rig.plane, node, server)
        rig.mindie(PREFILL)
        old = rig.running(PREFILL, 2)
        speaks, hangs = sorted(old)
        server.hanging = {hangs}
        broken = old[speaks]["spec"]["nodeName"]

        say(rig, broken, chip_fault())
        recovery = rig.recovered(60)

        name = recovery["metadata"]["name"]
        assert [(one["node"], one["chip"], one["code"]) for one in recovery["spec"]["evidence"]] == [
            (broken, CHIP, HBM)
        ]
        shown = CliRunner().invoke(main, ["recoveries", "show", name, "--url", reconciler.url])
        assert shown.exit_code == 0, shown.output
        assert f"last words of {speaks}" in shown.stdout
        assert f"last words of {hangs}" not in shown.stdout
        assert "not read within" in shown.stdout
        assert {pod: query["tailLines"] for pod, _, query in server.asked} == {speaks: ["50"], hangs: ["50"]}
        assert reconciler.metric("npuwarden_reconciler_evidence_seconds_count") == 1

        wait_until("the notices", lambda: {"isolated", "recovered"} <= receiver.events)
        told = {notice["event"]: notice for notice in receiver.notices}
        assert told["isolated"]["node"] == broken
        assert told["recovered"]["recovery"] == f"{rig.namespace}/{name}"

    kept = f"/api/v1/namespaces/{rig.namespace}/configmaps/npuwarden-evidence-{name}"
    assert rig.api.find(kept) is not None
    rig.api.delete(f"{RECOVERIES}/namespaces/{rig.namespace}/recoveries/{name}")
    wait_until("the logs are gone with their recovery", lambda: rig.api.find(kept) is None)


@pytest.mark.usefixtures("component")
def test_the_right_to_make_configmaps_is_held_to_its_names(rig: Rig) -> None:
    token = rig.plane.token_for("npuwarden-system", "npuwarden-reconciler")
    api = type(rig.api)(rig.plane.url, token, rig.plane.tls)
    collection = f"/api/v1/namespaces/{rig.namespace}/configmaps"

    def refusal() -> str:
        try:
            api.post(collection, {"metadata": {"name": "others"}})
        except ApiError as exc:
            return str(exc)
        rig.api.delete(f"{collection}/others")
        return ""

    wait_until("others are refused", lambda: "npuwarden-evidence-configmaps" in refusal())
    api.post(collection, {"metadata": {"name": "npuwarden-evidence-x"}})


def test_without_the_component_a_restart_goes_on_without_logs(rig: Rig) -> None:
    reconciler = rig.reconciler(policy={**POLICY, "evidence": {"logs": True}})
    reconciler.leads()
    rig.add_nodes(3)
    rig.mindie(PREFILL)
    old = rig.running(PREFILL, 2)
    say(rig, old[f"{PREFILL}-master-0"]["spec"]["nodeName"], chip_fault())
    name = rig.recovered(60)["metadata"]["name"]
    shown = CliRunner().invoke(main, ["recoveries", "show", name, "--url", reconciler.url])
    assert "components/evidence" in shown.stdout
    assert "components/evidence" in reconciler.said
