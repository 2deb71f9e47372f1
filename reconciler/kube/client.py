"""The only door to the API server: raw requests over the official client's configuration, authentication and TLS.

The typed methods of that client cost twenty times the CPU of bytes into msgspec, so only its transport is used.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from reconciler.core.calls import Call, Reply
from reconciler.kube.clock import ClusterClock
from shared.config import ConfigError
from shared.version import VERSION

_UNREADABLE = (kube_config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, LookupError, AttributeError)
"""The official loader lets through whatever a malformed file provokes in it."""
CONNECT_TIMEOUT_S = 5.0
SILENCE_AFTER_END_S = 5.0
"""A watch that the server should have ended by now and that says nothing has lost its server."""
RELOAD_EVERY_S = 10.0
"""Credentials are read again on a 401, at most so often."""
Params = Iterable[tuple[str, str]]


class KubeError(Exception):
    """The API server refused a read (status from 400 up) or gave no answer (status 0). `str()` is one line."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.text)
        self.status = reply.status


class KubeClient:
    """Requests to one API server over kept-alive connections. Made by `connected`, which also closes it."""

    def __init__(self, configuration: Any, kubeconfig: str | None) -> None:
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._rest = RESTClientObject(configuration)
        self._reloaded_at = time.monotonic()
        self.clock = ClusterClock()

    @property
    def url(self) -> str:
        return str(self._configuration.host)

    async def close(self) -> None:
        await self._rest.close()

    async def send(self, call: Call, *, timeout_s: float) -> Reply:
        """Carry out one call. Never raises for what the server or the network does: status 0 = no answer."""
        asked_at = time.monotonic()
        try:
            response = await self._request(call, aiohttp.ClientTimeout(total=timeout_s))
            self.clock.heard(response.headers.get("Date"), asked_at)
            async with response:
                return _reply(response, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            return self._no_answer(exc, timeout_s)

    async def get_bytes(self, path: str, params: Params = (), *, timeout_s: float = 60.0) -> bytes:
        """The body of a GET as it came; lists of thousands of objects are decoded by who knows the fields.

        Raises KubeError.
        """
        try:
            call = Call("GET", path, params=tuple(params))
            async with await self._request(call, aiohttp.ClientTimeout(total=timeout_s)) as response:
                body = await response.read()
                if response.status >= 400:
                    raise KubeError(_reply(response, body))
                return body
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise KubeError(self._no_answer(exc, timeout_s)) from exc

    @contextlib.asynccontextmanager
    async def watch(self, path: str, params: Params = (), *, timeout_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch that the server ends after `timeout_s`; yields its lines, each one JSON event, undecoded.

        Entering says that the server has accepted it. Raises KubeError, from reading the lines too.
        """
        query = (*params, ("watch", "1"), ("timeoutSeconds", str(int(timeout_s))))
        silence_s = timeout_s + SILENCE_AFTER_END_S
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        try:
            async with await self._request(Call("GET", path, params=query), timeout) as response:
                if response.status >= 400:
                    raise KubeError(_reply(response, await response.read()))
                async with contextlib.aclosing(_lines(response.content)) as lines:
                    yield lines
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise KubeError(self._no_answer(exc, silence_s)) from exc

    async def _request(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        response = await self._attempt(call, timeout)
        if response.status == 401 and time.monotonic() - self._reloaded_at > RELOAD_EVERY_S:
            # Tokens of an exec plugin or a rotated kubeconfig: read them again, once.
            self._reloaded_at = time.monotonic()
            response.release()
            with contextlib.suppress(ConfigError):
                self._configuration.api_key.update((await _configuration(self._kubeconfig)).api_key)
            response = await self._attempt(call, timeout)
        return response

    async def _attempt(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"npu-warden/{VERSION}",
            "Content-Type": call.content_type,
        }
        token = (await self._configuration.auth_settings()).get("BearerToken")
        if token and token["value"]:
            headers["Authorization"] = token["value"]
        query = f"?{urlencode(call.params, quote_via=quote)}" if call.params else ""
        answer = await self._rest.request(
            call.method, f"{self.url}{call.path}{query}", headers=headers, body=call.body, _request_timeout=timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response

    def _no_answer(self, exc: BaseException, timeout_s: float) -> Reply:
        if isinstance(exc, TimeoutError):
            return Reply(0, {"reason": "Timeout", "message": f"{self.url} did not answer within {timeout_s:g} s"})
        return Reply(0, {"reason": "Unreachable", "message": f"{self.url}: {exc or type(exc).__name__}"})


@contextlib.asynccontextmanager
async def connected(kubeconfig: str | None) -> AsyncIterator[KubeClient]:
    """A client while the block runs. `kubeconfig`: a file, or None for the pod's own service account.

    None outside a pod means $KUBECONFIG or ~/.kube/config. Nothing is sent yet; raises ConfigError when there is
    nothing to send with.
    """
    configuration = await _configuration(kubeconfig)
    try:
        client = KubeClient(configuration, kubeconfig)
    except (ssl.SSLError, OSError) as exc:
        raise ConfigError(f"{kubeconfig or 'service account'}: the certificates cannot be used: {exc}") from exc
    try:
        yield client
    finally:
        await client.close()


async def _configuration(kubeconfig: str | None) -> Any:
    configuration = Configuration()
    in_pod = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
    path = "" if in_pod else _kubeconfig_path(kubeconfig)
    try:
        if in_pod:
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            # persist_config would write to the user's file.
            await kube_config.load_kube_config(path, client_configuration=configuration, persist_config=False)
    except (kube_config.ConfigException, yaml.YAMLError, OSError, ValueError) as exc:
        what = "the pod's service account" if in_pod else f"kubeconfig {path}"
        raise ConfigError(f"{what}: cannot be used: {' '.join(str(exc).split())}") from exc
    except (TypeError, LookupError, AttributeError) as exc:
        # The loader lets through whatever a malformed file provokes in it.
        hint = "it is no kubeconfig (YAML with clusters, users, contexts), or something in it is of the wrong kind"
        raise ConfigError(f"kubeconfig {path}: cannot be used: {hint}") from exc
    # The client would look for ~/.netrc and for proxies before every request, each in a thread: at the head of a burst
    # that costs more than the request. A proxy is looked up once; passwords in ~/.netrc are none of the API server's.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.proxy = configuration.proxy or _proxy_of_environment(configuration.host)
    return configuration


def _proxy_of_environment(url: str) -> str | None:
    """HTTPS_PROXY (HTTP_PROXY for a plain address) unless NO_PROXY names the host."""
    where = urlsplit(url)
    return None if proxy_bypass(where.hostname or "") else getproxies().get(where.scheme)


def _kubeconfig_path(kubeconfig: str | None) -> str:
    """One file or, as kubectl has it, several; raises ConfigError when none of them is there."""
    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not any(os.path.isfile(os.path.expanduser(part)) for part in path.split(os.pathsep) if part):
        raise ConfigError(f"kubeconfig {path}: no such file (key kube.kubeconfig; in a pod it is not needed)")
    return path


def _reply(response: aiohttp.ClientResponse, body: bytes) -> Reply:
    """Status and body as data. What is no JSON object (a proxy's page, flow control's text) becomes reason, message."""
    try:
        decoded = msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = None
    if not isinstance(decoded, dict):
        text = " ".join(body.decode(errors="replace").split())[:200]
        decoded = {"reason": response.reason or "", "message": text or "empty answer"}
    wait = response.headers.get("Retry-After", "")
    if response.status >= 400 and wait.isdecimal():
        details = decoded.get("details")
        decoded["details"] = {**(details if isinstance(details, dict) else {}), "retryAfterSeconds": int(wait)}
    return Reply(response.status, decoded)


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Whole lines of any length: an object of 3 MiB is one line, the reader's own limit is lower."""
    rest = bytearray()
    async for chunk in content.iter_any():
        rest += chunk
        end = rest.rfind(b"\n")
        if end < 0:
            continue
        whole = bytes(rest[:end])
        del rest[: end + 1]
        for line in whole.split(b"\n"):
            if line:
                yield line
