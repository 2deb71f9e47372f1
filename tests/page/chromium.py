"""The page in a real browser: Debian's Chromium without a window, driven by Playwright."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WAIT_S = 40.0
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; scripts/bootstrap.sh all installs it")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    # Root, as in CI's containers, has no sandbox; these pages are the project's own.
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=60_000
        )
        try:
            yield browser
        finally:
            await browser.close()


class Seen:
    """One open page, what its console said and where it asked."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.add(request.url))

    async def text(self, selector: str) -> str:
        """What a person reads there."""
        found: str = await self.page.locator(selector).inner_text()
        return found

    async def until(self, what: str, expression: str, argument: Any = None) -> Any:
        """The first true answer. Playwright's own waiting evaluates text in the page, which its policy forbids."""
        deadline = time.monotonic() + WAIT_S
        while not (seen := await self.page.evaluate(expression, argument)):
            assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}; {await self.text('main')}"
            await asyncio.sleep(0.05)
        return seen

    async def until_text(self, selector: str, part: str) -> None:
        await self.until(
            f"{selector} says {part!r}",
            "([where, part]) => document.querySelector(where).innerText.includes(part)",
            [selector, part],
        )


@contextlib.asynccontextmanager
async def opened(
    browser: Browser, url: str, *, scheme: Literal["light", "dark"] = "light", width: int = 1400
) -> AsyncIterator[Seen]:
    context = await browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 1000})
    try:
        seen = Seen(await context.new_page())
        await seen.page.goto(url)
        yield seen
    finally:
        await context.close()
