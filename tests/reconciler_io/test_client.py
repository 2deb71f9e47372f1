"""The door to the API server: every answer is data, and every refusal is one line a person can act on."""

import json
import time
from pathlib import Path

import pytest
from aiohttp import web

from console.lab.cluster.server import ApiServer
from console.lab.cluster.store import Store
from reconciler.core.calls import Call
from reconciler.kube import client as kube_client
from reconciler.kube.client import KubeClient, KubeError, connected
from shared.config import ConfigError
from shared.http_server import serving
from tests.cluster.plane import ControlPlane
from tests.process import free_ports
from tests.reconciler_io.conftest import Kubeconfig, node

NODES = "/api/v1/nodes"


async def test_a_refusal_is_a_reply(client: KubeClient, store: Store) -> None:
    reply = await client.send(Call("GET", f"{NODES}/absent"), timeout_s=5)
    assert (reply.status, reply.body["reason"]) == (404, "NotFound")
    assert (await client.send(Call("POST", NODES, node("a")), timeout_s=5)).status == 201
    assert (await client.send(Call("POST", NODES, node("a")), timeout_s=5)).status == 409


async def test_an_unreachable_server_is_no_answer(kubeconfig: Kubeconfig) -> None:
    (port,) = free_ports(1)
    async with connected(str(kubeconfig(f"http://127.0.0.1:{port}"))) as client:
        reply = await client.send(Call("GET", NODES), timeout_s=5)
        assert (reply.status, reply.body["reason"]) == (0, "Unreachable")
        assert f"http://127.0.0.1:{port}" in reply.text
        with pytest.raises(KubeError) as refused:
            await client.get_bytes(NODES)
        assert refused.value.status == 0


async def test_a_server_that_hangs_is_no_answer_in_time(client: KubeClient, server: ApiServer) -> None:
    server.latency_s = 30.0
    began = time.monotonic()
    reply = await client.send(Call("GET", NODES), timeout_s=0.2)
    assert (reply.status, reply.body["reason"]) == (0, "Timeout")
    assert time.monotonic() - began < 2


async def test_what_is_no_json_and_a_retry_after_header_are_understood(kubeconfig: Kubeconfig) -> None:
    async def overloaded(_request: web.Request) -> web.Response:
        return web.Response(
            status=429, text="Too many requests,\nplease try again later.", headers={"Retry-After": "3"}
        )

    app = web.Application()
    app.router.add_get(NODES, overloaded)
    async with (
        serving(app, "127.0.0.1:0") as port,
        connected(str(kubeconfig(f"http://127.0.0.1:{port}"))) as client,
    ):
        reply = await client.send(Call("GET", NODES), timeout_s=5)
    assert reply.status == 429
    assert reply.text == "429 Too Many Requests: Too many requests, please try again later."
    assert reply.body["details"] == {"retryAfterSeconds": 3}


async def test_a_rotated_token_is_read_again(kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "RELOAD_EVERY_S", 0.0)
    good = "none"  # what the fixture writes

    async def guarded(request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if request.headers["Authorization"] == f"Bearer {good}" else 401)

    app = web.Application()
    app.router.add_get(NODES, guarded)
    async with serving(app, "127.0.0.1:0") as port:
        path = kubeconfig(f"http://127.0.0.1:{port}")
        async with connected(str(path)) as client:
            assert (await client.send(Call("GET", NODES), timeout_s=5)).ok
            good = "fresh"
            assert (await client.send(Call("GET", NODES), timeout_s=5)).status == 401
            rotate(path, good)
            assert (await client.send(Call("GET", NODES), timeout_s=5)).ok


def rotate(path: Path, token: str) -> None:
    path.write_text(path.read_text().replace('"token": "none"', f'"token": "{token}"'))


async def test_a_watch_line_may_be_as_long_as_an_object(client: KubeClient, store: Store) -> None:
    big = {**node("big"), "metadata": {"name": "big", "annotations": {"note": "x" * 5_000_000}}}
    store.load(big)
    store.load(node("small"))
    lines: list[bytes] = []
    async with client.watch(NODES, (("resourceVersion", "0"),), timeout_s=30) as stream:
        async for line in stream:
            lines.append(line)
            if len(lines) == 2:
                break
    assert [json.loads(line)["object"]["metadata"]["name"] for line in lines] == ["big", "small"]


async def asked_of(request: web.Request) -> web.Response:
    """The request as the server saw it."""
    return web.json_response({"target": request.raw_path, "authorization": request.headers.get("Authorization")})


async def test_passwords_of_netrc_are_not_for_the_api_server(
    kubeconfig: Kubeconfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    app = web.Application()
    app.router.add_get(NODES, asked_of)
    async with serving(app, "127.0.0.1:0") as port:
        path = kubeconfig(f"http://127.0.0.1:{port}")
        for name, sent in (("none", "Bearer none"), ("", None)):
            rotate(path, name)
            async with connected(str(path)) as client:
                reply = await client.send(Call("GET", NODES), timeout_s=5)
            assert (reply.status, reply.body["authorization"]) == (200, sent)


@pytest.mark.parametrize(("but_not", "proxied"), [("", True), ("127.0.0.1", False)])
async def test_a_proxy_of_the_environment_is_taken_but_for_hosts_that_do_without(
    kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch, but_not: str, proxied: bool
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    app = web.Application()
    app.router.add_get("/{path:.*}", asked_of)
    async with serving(app, "127.0.0.1:0") as port, serving(app, "127.0.0.1:0") as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy}")
        monkeypatch.setenv("no_proxy", but_not)
        server = f"http://127.0.0.1:{port}"
        async with connected(str(kubeconfig(server))) as client:
            reply = await client.send(Call("GET", NODES), timeout_s=5)
    # To a proxy a request names the whole URL.
    assert reply.body["target"] == (f"{server}{NODES}" if proxied else NODES)


BROKEN = {
    "no YAML": "{ this is : [ no yaml",
    "no mapping": "just a text",
    "no context": "apiVersion: v1\nkind: Config\n",
    "a context that is not there": "kind: Config\ncurrent-context: x\ncontexts: []\nclusters: []\nusers: []\n",
    "an empty file": "",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_kubeconfig_is_one_line_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        async with connected(str(path)):
            pass
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: no such file .*kube\.kubeconfig"):
        async with connected(str(tmp_path / "nowhere")):
            pass


async def test_tls_and_rights_of_a_real_server(control_plane: ControlPlane) -> None:
    async with connected(str(control_plane.kubeconfig)) as admin:
        assert (await admin.send(Call("GET", NODES), timeout_s=5)).ok
    async with connected(str(control_plane.kubeconfig_for("stranger"))) as stranger:
        reply = await stranger.send(Call("GET", NODES), timeout_s=5)
    assert reply.status == 403
    assert 'User "stranger" cannot list resource "nodes"' in reply.text


async def test_an_unknown_authority_is_no_answer_and_says_so(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(control_plane.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path = tmp_path / "untrusting"
    path.write_text(json.dumps(config))
    async with connected(str(path)) as client:
        reply = await client.send(Call("GET", NODES), timeout_s=5)
    assert reply.status == 0
    assert "certificate verify failed" in reply.text
