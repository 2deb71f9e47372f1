"""The reconciler through the API server's proxy: by the Service, then at the leader's pod; and how it can fail."""

import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.names import NAMESPACE, RECONCILER_PORT, RECONCILER_SERVICE
from tests.console.conftest import Replica, Run, broken
from tests.process import free_ports

SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{RECONCILER_SERVICE}:{RECONCILER_PORT}/proxy"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/reconciler-7-abc:{RECONCILER_PORT}/proxy"


class Proxy(ThreadingHTTPServer):
    """The part of an API server that hands requests on: `backends` by path prefix, all others are told by a Status."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.backends: dict[str, str] = {}
        self.asked: list[str] = []
        self.refusal = 403


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        backend = next((url for prefix, url in self.server.backends.items() if self.path.startswith(prefix)), None)
        if backend is None:
            status, body = (
                self.server.refusal,
                b'{"kind":"Status","reason":"Forbidden","message":"may not get proxies"}',
            )
        else:
            try:
                with urllib.request.urlopen(f"{backend}{self.path.partition('/proxy')[2]}", timeout=10) as answer:
                    status, body = answer.status, answer.read()
            except urllib.error.HTTPError as exc:
                with exc:
                    status, body = exc.code, exc.read()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def kubeconfig(path: Path, port: int) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture
def config(proxy: Proxy, tmp_path: Path) -> str:
    return kubeconfig(tmp_path / "config", proxy.server_port)


def test_by_the_service(run: Run, url: str, replica: Replica, proxy: Proxy, config: str) -> None:
    proxy.backends = {SERVICE: url}
    replica.say("alpha", broken(0))
    result = run("faults", "--url", f"kubeconfig:{config}")
    assert result.exit_code == 1, result.output
    assert "80E18402" in result.output
    assert proxy.asked == [f"{SERVICE}/v1/faults?limit=1000"]


def test_a_kubeconfig_is_taken_where_no_url_is_given(run: Run, url: str, proxy: Proxy, config: str) -> None:
    proxy.backends = {SERVICE: url}
    quiet = {"NPUWARDEN_URL": "", "KUBECONFIG": config}
    assert run("nodes", env=quiet).exit_code == 0
    assert proxy.asked
    unasked = len(proxy.asked)
    assert run("nodes", env={**quiet, "NPUWARDEN_URL": url}).exit_code == 0
    assert len(proxy.asked) == unasked, "an --url is asked directly"


@pytest.mark.parametrize("holder", ["reconciler-7-abc_0f0f0f0f", f"reconciler-7-abc_{uuid.uuid4()}_0f0f0f0f"])
def test_what_only_the_leader_knows_is_asked_at_its_pod(
    holder: str, run: Run, url: str, replica: Replica, proxy: Proxy, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.backends = {SERVICE: url}
    replica.leads = False
    monkeypatch.setattr(replica, "leader", lambda: holder)
    result = run("nodes", "--url", f"kubeconfig:{config}")
    assert result.exit_code == 3
    assert [path for path in proxy.asked if path.startswith(POD)] == [f"{POD}/v1/nodes?limit=1000"]
    assert "pods/proxy" in result.stderr


def test_what_the_reconciler_does_not_know_is_still_its_own_word(run: Run, url: str, proxy: Proxy, config: str) -> None:
    proxy.backends = {SERVICE: url}
    result = run("why", "alph", "--url", f"kubeconfig:{config}")
    assert result.exit_code == 2
    assert "known: alpha" in result.stderr


@pytest.mark.parametrize("refusal", [403, 404, 503])
def test_the_api_server_refuses(run: Run, proxy: Proxy, config: str, refusal: int) -> None:
    proxy.refusal = refusal
    result = run("status", "--url", f"kubeconfig:{config}")
    assert result.exit_code == 3
    assert f"http://127.0.0.1:{proxy.server_port}" in result.stderr
    assert "may not get proxies" in result.stderr
    assert "--url or NPUWARDEN_URL names it directly" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_api_server_and_no_kubeconfig(run: Run, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    result = run("status", "--url", f"kubeconfig:{kubeconfig(tmp_path / 'away', port)}")
    assert result.exit_code == 3
    assert f"127.0.0.1:{port}" in result.stderr
    result = run("status", "--url", f"kubeconfig:{tmp_path / 'absent'}")
    assert result.exit_code == 2
    assert "absent" in result.stderr


def test_a_kubeconfig_that_the_environment_names_and_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("status", env={"NPUWARDEN_URL": "", "KUBECONFIG": str(tmp_path / "absent")})
    assert result.exit_code == 2
    assert f"kubeconfig {tmp_path / 'absent'}: no such file" in result.stderr
    assert "--url or NPUWARDEN_URL names the reconciler directly" in result.stderr


def test_a_file_that_is_no_kubeconfig(run: Run, tmp_path: Path) -> None:
    (tmp_path / "hostname").write_text("alpha\n")
    result = run("status", "--url", f"kubeconfig:{tmp_path / 'hostname'}")
    assert result.exit_code == 2
    assert "hostname: cannot be used: it is no kubeconfig (YAML with clusters, users, contexts)" in result.stderr
    assert "object" not in result.stderr
