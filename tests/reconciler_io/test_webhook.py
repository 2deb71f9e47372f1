"""Notices reach receivers that are slow, broken, hanging or away, signed, once they can; and nobody waits for them."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reconciler import webhook as module
from reconciler.core import fold
from reconciler.core.policy import Webhooks
from reconciler.core.state import World
from reconciler.metrics import Metrics
from reconciler.webhook import DELIVERY, SIGNATURE, TIMESTAMP, Webhook
from shared import aio
from shared.aio import Ticks
from shared.http_server import serving
from tests.core.build import node
from tests.core.test_notices import isolated
from tests.process import free_ports
from tests.waiting import eventually

SECRET = b"open sesame"
DOCS = Path(__file__).parents[2] / "docs" / "webhooks.md"
Behave = Callable[[int], Awaitable[int]]


async def accept(_number: int) -> int:
    return 204


@dataclass
class Receiver:
    """A real HTTP server. behave: the status of its n-th answer, from 1."""

    behave: Behave = accept
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=t"

    def ids(self, *, taken: bool = True) -> list[str]:
        """Of all notices that came (in requests that were answered with success)."""
        pairs = zip(self.requests, self.answered, strict=False) if taken else ((r, 200) for r in self.requests)
        return [n["id"] for (_, body), status in pairs if status < 300 for n in json.loads(body)["notices"]]

    @contextlib.asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator["Receiver"]:
        async def handle(request: web.Request) -> web.Response:
            self.times.append(time.monotonic())
            self.requests.append((dict(request.headers), await request.read()))
            status = await self.behave(len(self.requests))
            self.answered.append(status)
            return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 302 else {})

        app = web.Application()
        app.router.add_post("/hook", handle)
        async with serving(app, f"127.0.0.1:{port}") as self.port:
            yield self


@dataclass
class Sender:
    """A webhook under a policy that a test may change, and a cluster in which nodes are isolated."""

    settings: Webhooks
    metrics: Metrics = field(default_factory=Metrics)
    world: World = field(default_factory=lambda: World())
    isolated: int = 0

    def __post_init__(self) -> None:
        self.webhook = Webhook(lambda: self.settings, "me", self.metrics, Ticks())

    def isolate(self, count: int = 1) -> None:
        """So many further nodes, and the plan that follows."""
        now = aio.now()
        for _ in range(count):
            name = f"n{self.isolated}"
            self.isolated += 1
            fold.observe(self.world, "Node", "set", isolated(name))
        self.webhook.planned(self.world.snapshot(), (), (), now)

    def counted(self, outcome: str) -> float:
        return self._value("webhook_notices_total", outcome=outcome)

    def attempts(self, result: str) -> float:
        return self._value("webhook_attempts_total", result=result)

    def _value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"npuwarden_reconciler_{name}", labels) or 0.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GAP_S", 0.02)
    monkeypatch.setattr(module, "BACKOFF_S", (0.02, 0.1))
    # Isolations of tests are as old as their clock is.
    monkeypatch.setattr("reconciler.core.notices.CATCH_UP_S", 1e12)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    return path


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().served() as made:
        yield made


def to(*urls: str, secret: Path, **more: Any) -> Sender:
    return Sender(Webhooks(urls=urls, secret_file=str(secret), **more))


async def test_a_notice_arrives_with_a_signature_over_time_and_body(receiver: Receiver, secret: Path) -> None:
    sender = to(receiver.url, secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        await eventually("delivered", lambda: sender.counted("delivered") == 1)
    ((headers, body),) = receiver.requests
    signed = headers[TIMESTAMP].encode() + b"." + body
    assert headers[SIGNATURE] == f"sha256={hmac.new(SECRET, signed, hashlib.sha256).hexdigest()}"
    assert abs(int(headers[TIMESTAMP]) - time.time()) < 120
    told = json.loads(body)
    assert (told["version"], told["by"]) == (1, "me")
    assert told["notices"][0]["drill"] is False
    assert told["notices"][0]["id"] == "isolated/n0/s1"


async def test_the_verification_of_the_documentation_takes_it_and_nothing_else(
    receiver: Receiver, secret: Path
) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippet, names)
    sender = to(receiver.url, secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        await eventually("delivered", lambda: receiver.requests)
    ((headers, body),) = receiver.requests
    assert names["genuine"](SECRET, headers, body)
    assert not names["genuine"](b"another", headers, body)
    assert not names["genuine"](SECRET, headers, body + b" ")
    assert not names["genuine"](SECRET, {**headers, TIMESTAMP: str(int(time.time()) - 3600)}, body)
    old = str(int(time.time()) - 3600)
    replayed = {TIMESTAMP: old, SIGNATURE: module.signature(SECRET, old, body)}
    assert not names["genuine"](SECRET, replayed, body), "a recorded request is no new one"
    assert not names["genuine"](SECRET, {}, body)


async def test_an_error_is_answered_with_the_same_notice_again(receiver: Receiver, secret: Path) -> None:
    async def broken_twice(number: int) -> int:
        return 500 if number <= 2 else 200

    receiver.behave = broken_twice
    sender = to(receiver.url, secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        await eventually("delivered", lambda: sender.counted("delivered") == 1)
    assert receiver.ids(taken=False) == ["isolated/n0/s1"] * 3
    assert len({headers[DELIVERY] for headers, _ in receiver.requests}) == 1, "the same batch, the same id"
    assert sender.attempts("refused") == 2


async def test_a_redirect_is_not_followed(receiver: Receiver, secret: Path) -> None:
    async def away(_number: int) -> int:
        return 302

    receiver.behave = away
    sender = to(receiver.url, secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        await eventually("two attempts", lambda: sender.attempts("refused") >= 2)
    assert sender.counted("delivered") == 0


async def test_a_receiver_that_is_down_gets_it_when_it_comes_up(secret: Path) -> None:
    (port,) = free_ports(1)
    receiver = Receiver()
    sender = to(f"http://127.0.0.1:{port}/hook", secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate(3)
        await eventually("refused connections", lambda: sender.attempts("no-answer") >= 3)
        async with receiver.served(port):
            await eventually("delivered", lambda: sender.counted("delivered") == 3)
    assert sorted(receiver.ids()) == [f"isolated/n{number}/s1" for number in range(3)]


async def test_one_that_hangs_holds_up_neither_plans_nor_the_others(
    receiver: Receiver, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_number: int) -> int:
        await asyncio.Event().wait()
        return 200

    async with Receiver(hang).served() as hanging:
        sender = to(hanging.url, receiver.url, secret=secret)
        async with aio.running(sender.webhook.run()):
            sender.isolate()
            await eventually("it hangs", lambda: hanging.requests)
            for _ in range(20):
                sender.isolate()
            await eventually("the other has all", lambda: len(set(receiver.ids())) == 21)
            assert hanging.answered == []


async def test_one_that_hangs_is_given_up_and_asked_again(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.2)

    async def hang_once(number: int) -> int:
        if number == 1:
            await asyncio.Event().wait()
        return 200

    async with Receiver(hang_once).served() as receiver:
        sender = to(receiver.url, secret=secret)
        async with aio.running(sender.webhook.run()):
            sender.isolate()
            await eventually("delivered", lambda: sender.counted("delivered") == 1)
    assert sender.attempts("no-answer") >= 1
    assert receiver.ids(taken=False) == ["isolated/n0/s1"] * len(receiver.requests)


async def test_a_storm_is_a_few_requests(receiver: Receiver, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gap_s = 0.3
    monkeypatch.setattr(module, "GAP_S", gap_s)
    sender = to(receiver.url, secret=secret)
    async with aio.running(sender.webhook.run()):
        for _ in range(250):
            sender.isolate()
        await eventually("all delivered", lambda: sender.counted("delivered") == 250)
    assert len(receiver.requests) <= 5
    assert all(
        later - earlier > gap_s * 0.9 for earlier, later in zip(receiver.times, receiver.times[1:], strict=False)
    )


async def test_what_does_not_fit_the_queue_is_counted(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING", 5)
    sender = to("http://127.0.0.1:9/hook", secret=secret)
    sender.isolate(8)
    assert sender.counted("dropped") == 3


async def test_what_nobody_has_taken_for_an_hour_is_given_up(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRES_S", 0.3)
    (port,) = free_ports(1)
    sender = to(f"http://127.0.0.1:{port}/hook", secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate(2)
        await eventually("given up", lambda: sender.counted("expired") == 2)


@pytest.mark.parametrize("content", [None, b"", b"\n"])
async def test_nothing_is_sent_unsigned(receiver: Receiver, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    sender = to(receiver.url, secret=path)
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        await eventually("tried", lambda: sender.attempts("secret") >= 2)
        assert receiver.requests == []
        path.write_bytes(SECRET)
        await eventually("sent once there is a secret", lambda: sender.counted("delivered") == 1)


async def test_only_what_was_asked_for_is_sent(receiver: Receiver, secret: Path) -> None:
    sender = to(receiver.url, secret=secret, events=("released",))
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        fold.observe(sender.world, "Node", "set", node("n0"))
        sender.webhook.planned(sender.world.snapshot(), (), (), aio.now())
        await eventually("delivered", lambda: sender.counted("delivered") == 1)
    assert receiver.ids() == ["released/n0/s1"]


async def test_a_receiver_that_the_policy_names_no_more_gets_nothing(receiver: Receiver, secret: Path) -> None:
    (port,) = free_ports(1)
    sender = to(f"http://127.0.0.1:{port}/hook", secret=secret)
    async with aio.running(sender.webhook.run()) as (task,):
        sender.isolate()
        await eventually("tried", lambda: sender.attempts("no-answer") >= 1)
        sender.settings = Webhooks(urls=(receiver.url,), secret_file=str(secret))
        sender.isolate()
        await eventually("the new one has it", lambda: "isolated/n1/s1" in receiver.ids())
        assert sender.counted("dropped") == 1
        assert not task.done()


async def test_the_url_with_its_token_stands_in_no_log(secret: Path, caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    sender = to(f"http://127.0.0.1:{port}/hook?token=hush", secret=secret)
    async with aio.running(sender.webhook.run()):
        sender.isolate()
        await eventually("tried", lambda: sender.attempts("no-answer") >= 2)
    assert "127.0.0.1" in caplog.text
    assert "hush" not in caplog.text
    assert caplog.text.count("not taken") == 1, "a lasting trouble is said once"


async def test_a_bug_in_the_notices_stops_no_plan(
    receiver: Receiver, secret: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bug(*_args: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("reconciler.core.notices.NoticeBook.look", bug)
    to(receiver.url, secret=secret).isolate()
    assert "what was decided is carried out" in caplog.text


async def test_without_a_receiver_nothing_is_looked_at(secret: Path) -> None:
    sender = Sender(Webhooks())
    async with aio.running(sender.webhook.run()):
        sender.isolate(3)
    assert sender.counted("dropped") == 0
