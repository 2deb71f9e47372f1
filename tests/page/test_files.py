"""The page's files: whole, from here alone, under a policy that lets nothing else run."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from reconciler.api import application
from reconciler.page.files import STATIC
from shared.http_server import serving
from tests.page.replica import replica_of

FILES = sorted(path for path in STATIC.iterdir() if path.is_file())
TEXTS = {path.name: path.read_text() for path in FILES}


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serving(application(replica_of(2)), "127.0.0.1:0") as port:
        yield f"http://127.0.0.1:{port}"


async def test_every_file_is_served_with_its_type_and_policy(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ["/", *(f"/page/{file.name}" for file in FILES)]:
            async with session.get(url + path) as answer:
                assert answer.status == 200, path
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                tag = answer.headers["ETag"]
                assert await answer.text() == TEXTS[Path(path).name or "index.html"]
            async with session.get(url + path, headers={"If-None-Match": tag}) as again:
                assert (again.status, await again.read()) == (304, b"")


@pytest.mark.parametrize("path", ["/page/absent.js", "/page/..%2f__init__.py", "/page/", "/page/%2e%2e/files.py"])
async def test_nothing_else_is_served(url: str, path: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url + path) as answer:
        assert answer.status == 404
        assert answer.content_type == "application/problem+json"


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(file: Path) -> None:
    text = TEXTS[file.name]
    assert re.findall(r"(?:https?:)?//[a-z][\w.-]+\.\w+", text.replace("http://www.w3.org/2000/svg", "")) == []
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=\"", text) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text) == []


def test_every_reference_leads_somewhere_and_is_relative() -> None:
    names = {path.name for path in FILES}
    linked = re.findall(r"(?:href|src)=\"([^\"#]+)\"", TEXTS["index.html"])
    assert {one.removeprefix("page/") for one in linked} <= names
    assert all(one.startswith("page/") for one in linked), "behind a proxy's path an absolute address leads nowhere"
    for name, text in TEXTS.items():
        assert set(re.findall(r"from \"\./([\w.]+)\"", text)) <= names, name
    # Everything is fetched at once, not as the browser finds out.
    modules = {name for name in names if name.endswith(".js")} - {"main.js"}
    assert modules == set(re.findall(r"modulepreload\" href=\"page/([\w.]+)\"", TEXTS["index.html"]))


def test_every_element_that_a_script_asks_for_is_there() -> None:
    ids = set(re.findall(r"\bid=\"([\w-]+)\"", TEXTS["index.html"]))
    asked = {one for text in TEXTS.values() for one in re.findall(r"byId\(\"([\w-]+)\"\)", text)}
    assert asked <= ids
