"""The gRPC service with real clients: pushes, pre-emption, slow readers, TLS, the next leader."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from reconciler.config import RankTableServer
from reconciler.metrics import Metrics
from reconciler.ranktable.hub import Hub
from reconciler.ranktable.server import listening
from reconciler.ranktable.wire import ClientInfo, RankTableStream, Status
from shared.config import ConfigError
from tests.waiting import eventually

LOCAL = RankTableServer(listen="127.0.0.1:0")
ME = ClientInfo("llm", "controller")


class Client:
    """What an MS Controller does, over one connection."""

    def __init__(self, channel: Any) -> None:
        self._register = channel.unary_unary("/config.Config/Register", ClientInfo.encode, Status.decode)
        self._subscribe = channel.unary_stream(
            "/config.Config/SubscribeRankTable", ClientInfo.encode, RankTableStream.decode
        )

    async def register(self, who: ClientInfo = ME) -> Status:
        status: Status = await self._register(who, timeout=5)
        return status

    def subscribe(self, who: ClientInfo = ME) -> Any:
        return self._subscribe(who, wait_for_ready=True)


@asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        yield Client(channel)


async def push(stream: Any) -> str:
    async with asyncio.timeout(5):
        got = await stream.read()
    assert isinstance(got, RankTableStream), got
    assert got.job_id == "llm"
    return got.rank_table


async def test_a_subscriber_gets_the_table_and_each_change_of_it() -> None:
    hub = Hub()
    hub.take({"llm": "whole"}, wanted=True)
    async with listening(LOCAL, hub, Metrics()) as port, client(port) as controller:
        assert await controller.register() == Status(0, "registered")
        stream = controller.subscribe()
        assert await push(stream) == "whole"
        hub.take({"llm": "without"}, wanted=True)
        assert await push(stream) == "without"
        hub.take({}, wanted=True)
        hub.take({"llm": "without"}, wanted=True)
        hub.take({"llm": "with", "other": "x"}, wanted=True)
        assert await push(stream) == "with", "what it has already is not sent again"


async def test_a_subscriber_that_comes_before_the_first_table_waits_for_it() -> None:
    hub = Hub()
    async with listening(LOCAL, hub, Metrics()) as port, client(port) as controller:
        stream = controller.subscribe()
        await stream.wait_for_connection()
        hub.take({"llm": "first"}, wanted=True)
        assert await push(stream) == "first"


async def test_the_newer_subscriber_wins() -> None:
    hub = Hub()
    hub.take({"llm": "a"}, wanted=True)
    async with listening(LOCAL, hub, Metrics()) as port, client(port) as old, client(port) as new:
        first = old.subscribe()
        assert await push(first) == "a"
        second = new.subscribe()
        assert await push(second) == "a"
        async with asyncio.timeout(5):
            assert await first.read() is grpc.aio.EOF
        hub.take({"llm": "b"}, wanted=True)
        assert await push(second) == "b"
        assert len(hub) == 1
        assert (await new.register()).code == 0
        async with asyncio.timeout(5):
            assert await second.read() is grpc.aio.EOF, "a registration ends the stream before it"


async def test_a_slow_subscriber_blocks_nobody_and_then_gets_the_newest() -> None:
    hub = Hub()
    big = "x" * 200_000
    hub.take({"llm": "0" + big, "slow": "0" + big}, wanted=True)
    async with listening(LOCAL, hub, Metrics()) as port, client(port) as sleeper, client(port) as reader:
        slow = sleeper.subscribe(ClientInfo("slow"))
        assert (await slow.read()).rank_table[0] == "0"
        stream = reader.subscribe()
        assert (await push(stream))[0] == "0"
        for number in range(1, 60):
            text = f"{number} {big}"
            hub.take({"llm": text, "slow": text}, wanted=True)
            assert (await push(stream)) == text
        seen: list[int] = []
        async with asyncio.timeout(20):
            while not seen or seen[-1] != 59:
                seen.append(int((await slow.read()).rank_table.split()[0]))
        assert len(seen) < 59, "what was overtaken meanwhile is not sent"
        assert seen == sorted(seen)


async def test_after_a_failover_the_next_leader_gives_the_whole_table() -> None:
    first, second = Hub(), Hub()
    first.take({"llm": "table"}, wanted=True)
    second.take({"llm": "table"}, wanted=True)
    async with listening(LOCAL, first, Metrics()) as port, client(port) as controller:
        stream = controller.subscribe()
        assert await push(stream) == "table"
        settings = RankTableServer(listen=f"127.0.0.1:{port}")
        with pytest.raises(ConfigError, match=r"ranktable\.listen"):
            async with listening(settings, second, Metrics()):
                pass
    await eventually("its stream has ended", lambda: len(first) == 0)
    async with listening(settings, second, Metrics()) as port, client(port) as controller:
        assert await push(controller.subscribe()) == "table"


async def test_who_names_no_service_is_refused() -> None:
    async with listening(LOCAL, Hub(), Metrics()) as port, client(port) as controller:
        assert "MINDX_TASK_ID" in (await controller.register(ClientInfo())).info
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await controller.subscribe(ClientInfo()).read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_client_that_goes_leaves_nothing_behind() -> None:
    hub, metrics = Hub(), Metrics()
    hub.take({"llm": "a"}, wanted=True)
    async with listening(LOCAL, hub, metrics) as port:
        async with client(port) as controller:
            assert await push(controller.subscribe()) == "a"
            assert len(hub) == 1
        await eventually("the end of the subscription", lambda: len(hub) == 0)
    assert metrics.registry.get_sample_value("npuwarden_reconciler_ranktable_subscribers") == 0
    assert metrics.registry.get_sample_value("npuwarden_reconciler_ranktable_pushes_total") == 1


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and a certificate of it for localhost that serves both sides."""
    where = tmp_path_factory.mktemp("pki")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=where, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=test-ca")
    openssl("req", *key, "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=localhost")
    (where / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signed = ("x509", "-req", "-in", "own.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial")
    openssl(*signed, "-days", "2", "-extfile", "san", "-out", "own.crt")
    return where


async def test_tls_by_files_and_clients_that_must_show_a_certificate(pki: Path) -> None:
    ca, cert, key = (pki / "ca.crt").read_bytes(), (pki / "own.crt").read_bytes(), (pki / "own.key").read_bytes()
    settings = RankTableServer(
        listen="127.0.0.1:0",
        cert_file=str(pki / "own.crt"),
        key_file=str(pki / "own.key"),
        ca_file=str(pki / "ca.crt"),
    )
    hub = Hub()
    hub.take({"llm": "secret"}, wanted=True)
    async with listening(settings, hub, Metrics()) as port:
        known, unknown = grpc.ssl_channel_credentials(ca, key, cert), grpc.ssl_channel_credentials(ca)
        async with grpc.aio.secure_channel(f"localhost:{port}", known) as channel:
            assert await push(Client(channel).subscribe()) == "secret"
        async with grpc.aio.secure_channel(f"localhost:{port}", unknown) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await Client(channel).register()
            assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


async def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = RankTableServer(cert_file=str(tmp_path / "no.crt"), key_file=str(tmp_path / "no.key"))
    with pytest.raises(ConfigError, match=r"ranktable.*no\.key"):
        async with listening(settings, Hub(), Metrics()):
            pass


@pytest.mark.parametrize(
    ("keys", "says"),
    [({"cert_file": "a"}, "both"), ({"ca_file": "a"}, "TLS only"), ({"listen": "nowhere"}, "listen")],
)
def test_half_a_configuration_is_refused(keys: dict[str, str], says: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=says):
        RankTableServer(**keys)
