"""A kubelet that has logs: the one path of its API that the API server asks for them, over TLS."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cluster.plane import ControlPlane


class Kubelet(ThreadingHTTPServer):
    """hanging: pods of which a read never comes back. asked: (pod, container, query) of each read."""

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.hanging: set[str] = set()
        self.over = threading.Event()
        self.asked: list[tuple[str, str, dict[str, list[str]]]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # who asked has gone


class _Handler(BaseHTTPRequestHandler):
    server: Kubelet

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        _, _, _namespace, pod, container = parts.path.split("/")
        self.server.asked.append((pod, container, parse_qs(parts.query)))
        if pod in self.server.hanging:
            self.server.over.wait(60)
            return
        body = f"2026-01-01T00:00:00Z last words of {pod}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def kubelet(plane: ControlPlane) -> Iterator[Kubelet]:
    crt, key = plane.sign("kubelet", "/CN=kubelet", extensions=["subjectAltName=IP:127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(crt, key)
    with Kubelet(tls) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join(10)


def runs_on(plane: ControlPlane, node: str, server: Kubelet) -> None:
    """The API server asks this kubelet for what concerns the node."""
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_port}},
    }
    plane.api.merge_patch(f"/api/v1/nodes/{node}/status", {"status": status})
