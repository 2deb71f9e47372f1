"""The page as a person uses it: by eye, by keyboard, by screen reader, and when the warden goes away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route

from reconciler.api import application
from shared.http_server import serving
from shared.model import FaultLevel
from tests.core.build import node
from tests.core.journal import recovery
from tests.page.chromium import Seen, chromium, needs_chromium, opened
from tests.page.replica import HOLDER, Replica, a_fault, replica_of
from tests.process import free_ports

# One browser for all of them, and so one loop: to start it takes seconds.
pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = "<img src=x onerror=document.title='owned'>"

CONTRASTS = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const channel = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = pixel.getContext("2d", { willReadFrequently: true });
  const rgb = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const backs = (element) => {
    const found = [];
    for (let one = element; one; one = one.parentElement) found.unshift(getComputedStyle(one).backgroundColor);
    return found;
  };
  const bad = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const style = getComputedStyle(element);
    const hidden = !element.checkVisibility() || style.color === "rgba(0, 0, 0, 0)";
    if (!own || hidden || element.closest(".unseen, .skip, noscript")) continue;
    const [text, back] = [light(rgb([...backs(element), style.color])), light(rgb(backs(element)))];
    const ratio = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 100)}`);
  }
  return bad;
}"""

NAMELESS = """() => [...document.querySelectorAll("button, input, a[href], [role=meter], [role=img], [tabindex='0']")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.ariaLabel || one.innerText.trim() || one.labels?.length
    || document.getElementById(one.getAttribute("aria-labelledby"))))
  .map((one) => one.outerHTML)"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as one:
        yield one


@pytest.fixture
def replica() -> Replica:
    """Twenty nodes with one of each kind of trouble."""
    made = replica_of(20)
    made.say("npu-03", a_fault(3), a_fault(5, FaultLevel.SUB_HEALTH, "81078603"))
    made.say("npu-07", a_fault(0, FaultLevel.RESTART_BUSINESS, "80E01801", confirmed=False))
    made.say("npu-11", unseen=[2])
    made.drill("npu-14")
    made.observe(recovery(1, phase="Recreating"), recovery(2, unit="ml/k", phase="Exhausted"))
    made.decide()
    return made


@pytest_asyncio.fixture(loop_scope="module")
async def url(replica: Replica) -> AsyncIterator[str]:
    async with serving(application(replica), "127.0.0.1:0") as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_can_be_read(browser: Browser, url: str, scheme: Literal["light", "dark"]) -> None:
    async with opened(browser, url, scheme=scheme) as seen:
        await seen.until_text("#headline", "3 open faults, 1 fault of a drill")
        await seen.page.locator("#troubled-list button").first.click()
        await seen.until_text("#details-body", "80E18402")
        assert await seen.page.evaluate(CONTRASTS) == []
        assert await seen.page.evaluate(NAMELESS) == []
        back = await seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (max(map(int, back[4:-1].split(","))) < 60) == (scheme == "dark")
        assert {one.split("/")[2] for one in seen.asked} == {url.split("/")[2]}, "nothing comes from elsewhere"
        assert seen.complaints == []


async def test_what_a_shadow_drill_would_cause_stands_there(browser: Browser, url: str) -> None:
    async with opened(browser, url) as seen:
        await seen.until_text("#drills-list", "would taint npu-14 SeparateNPU:NoSchedule")


async def test_a_screen_reader_is_told_the_same(browser: Browser, url: str) -> None:
    async with opened(browser, url) as seen:
        await seen.until_text("#headline", "3 open faults, 1 fault of a drill")
        told = await seen.page.locator("body").aria_snapshot()
        for part in (
            'heading "NPU Warden" [level=1]',
            "status: 3 open faults",
            'button "npu-03 fault · chip 3, 5 SeparateNPU"',
            'region "Open faults"',
            'columnheader "Level"',
            'img "Timeline: ',
            'searchbox "Find a node"',
            'button "all 20" [pressed]',
        ):
            assert part in told, told
        assert await seen.page.locator("html").get_attribute("lang") == "en"
        headings = await seen.page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3')].filter((h) => h.checkVisibility()).map((h) => +h.tagName[1])"
        )
        assert headings[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(headings))


async def test_by_keyboard_alone(browser: Browser, url: str) -> None:
    async with opened(browser, url) as seen:
        page = seen.page
        await seen.until_text("#headline", "3 open faults, 1 fault of a drill")
        await page.locator("#grid").focus()
        await page.keyboard.press("ArrowRight")
        await seen.until_text("#cursor", "npu-00: ok, 8 chips ok")
        await page.keyboard.press("n")
        await seen.until_text("#cursor", "npu-03: fault, chip 3: SeparateNPU, chip 5: SubHealthFault")
        await page.keyboard.press("n")
        await seen.until_text("#cursor", "npu-07")
        await page.keyboard.press("p")
        await page.keyboard.press("Enter")
        await seen.until_text("#details-title", "npu-03")
        await seen.until_text("#details-body", "HBM")
        assert await page.evaluate("document.activeElement.id") == "details-title"
        await page.keyboard.press("Escape")
        assert await page.locator("#details").is_hidden()
        assert await page.evaluate("document.activeElement.id") == "grid"


async def test_nodes_are_found_by_name_and_by_verdict(browser: Browser, url: str) -> None:
    async with opened(browser, url) as seen:
        page = seen.page
        await seen.until_text("#verdicts", "fault 2")
        await page.get_by_role("button", name="fault 2").click()
        await page.locator("#grid").focus()
        await page.keyboard.press("End")
        await seen.until_text("#cursor", "npu-07")
        await page.get_by_label("Find a node").fill("npu-05")
        await seen.until("no such node", "!document.getElementById('grid-empty').hidden")
        await page.get_by_role("button", name="all 20").click()
        await page.locator("#grid").focus()
        await page.keyboard.press("End")
        await seen.until_text("#cursor", "npu-05: ok")


async def test_text_of_the_cluster_is_only_text(browser: Browser, replica: Replica, url: str) -> None:
    replica.say("npu-05", a_fault(2, code=HOSTILE))
    replica.observe(recovery(3, unit=f"ml/{HOSTILE}", phase="Held", name="x"))
    replica.world.paused = HOSTILE
    replica.decide()
    async with opened(browser, url) as seen:
        await seen.until_text("#faults-body", HOSTILE)
        await seen.until_text("#recoveries-list", HOSTILE)
        await seen.until_text("#notices", HOSTILE)
        await seen.page.get_by_role("button", name=f"ml/{HOSTILE}").click()
        await seen.until_text("#details-title", HOSTILE)
        assert await seen.page.locator("main img, aside img").count() == 0
        assert "owned" not in await seen.page.title()
        assert all("404" in one or "400" in one for one in seen.complaints), seen.complaints


async def test_what_many_nodes_have_in_common_is_said_first(browser: Browser, replica: Replica, url: str) -> None:
    for name in ("npu-15", "npu-16"):
        replica.observe(node(name, labels={"topology.kubernetes.io/rack": "rack-9"}))
        replica.say(name, a_fault(3))
    async with opened(browser, url) as seen:
        await seen.until_text("#headline", "3 open faults, 1 fault of a drill")
        assert not await seen.page.locator("#incidents").is_visible()
        replica.decide()
        await seen.until_text("#headline", "1 incident, 5 open faults, 1 fault of a drill")
        assert "2 nodes of" in await seen.text("#incidents-list")
        await seen.page.locator("#incidents-list button").first.click()
        await seen.until_text("#details-title", "npu-15")
        assert await seen.page.evaluate(CONTRASTS) == []


async def test_it_fits_a_telephone(browser: Browser, url: str) -> None:
    async with opened(browser, url, width=390) as seen:
        await seen.until_text("#headline", "3 open faults, 1 fault of a drill")
        wide = await seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390


async def test_a_standby_names_the_leader_and_the_page_goes_on_when_it_leads(
    browser: Browser, replica: Replica, url: str
) -> None:
    replica.leads, replica.leading = False, "warden-b_1_2"
    async with opened(browser, url) as seen:
        await seen.until_text("#headline", "This replica is a standby")
        assert "pod/warden-b" in await seen.text("#notices")
        await seen.until_text("#recoveries-list", "Recreating")
        assert not await seen.page.get_by_text("No open fault.").is_visible(), "nobody knows"
        replica.leads, replica.leading = True, HOLDER
        await seen.until_text("#headline", "3 open faults, 1 fault of a drill")
        assert await seen.text("#notices") == ""


async def test_before_the_first_answer_nothing_is_said_to_be_well(browser: Browser, url: str) -> None:
    page = await browser.new_page()
    try:
        await page.route("**/v1/stream", lambda route: route.abort())
        await page.goto(url)
        seen = Seen(page)
        await seen.until_text("#headline", "The warden does not answer")
        assert not [text for text in await page.locator(".card .empty").all() if await text.is_visible()]
        await page.unroute("**/v1/stream")
        await seen.until_text("#headline", "3 open faults")
        assert await page.locator("body[data-blind]").count() == 0
    finally:
        await page.close()


async def test_why_is_asked_again_where_another_replica_has_answered(browser: Browser, url: str) -> None:
    """Behind a Service each request may reach another one."""
    standby = replica_of(1)
    standby.leads, standby.leading = False, HOLDER
    async with serving(application(standby), "127.0.0.1:0") as port, opened(browser, url) as seen:
        astray: list[str] = []

        async def elsewhere(route: Route) -> None:
            if len(astray) < 2:
                astray.append(route.request.url)
                await route.continue_(url=f"http://127.0.0.1:{port}/v1/why?node=npu-03")
            else:
                await route.continue_()

        await seen.page.route("**/v1/why*", elsewhere)
        await seen.until_text("#headline", "3 open faults")
        await seen.page.locator("#troubled-list button").first.click()
        await seen.until_text("#details-body", "80E18402")
        assert len(astray) == 2


async def test_a_warden_that_has_gone_is_not_shown_as_well(browser: Browser) -> None:
    replica = replica_of(3)
    replica.say("npu-1", a_fault(3))
    replica.decide()
    (port,) = free_ports(1)
    async with serving(application(replica), f"127.0.0.1:{port}"):
        stack = opened(browser, f"http://127.0.0.1:{port}/")
        seen = await stack.__aenter__()
        await seen.until_text("#headline", "1 open fault")
    try:
        await seen.until_text("#headline", "what is shown is old")
        assert await seen.page.locator("body[data-old]").count() == 1
        replica.say("npu-1")
        replica.decide()
        async with serving(application(replica), f"127.0.0.1:{port}"):
            await seen.until_text("#headline", "All is well on 3 nodes with 24 chips")
            assert await seen.page.locator("#faults-body tr").count() == 0
            assert await seen.page.locator("body[data-old]").count() == 0
    finally:
        await stack.__aexit__(None, None, None)
