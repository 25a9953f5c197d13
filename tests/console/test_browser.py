"""The page in a real browser, against a real broker."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import PATH, WAIT_MS, Watched, chromium
from consoles import Console
from playwright.sync_api import Browser, Page, expect

from tidelog import Admin, Producer, TopicPartition
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.skipif(PATH is None, reason="needs Chromium: scripts/chromium.sh")

MakeTopic = Callable[..., str]
PAGES = ["overview", "topics", "groups", "schemas", "audit", "quotas", "access", "brokers"]
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a console; complaints of the browser fail the test."""
    made = []

    def look(console: Console, place: str = "overview", **options: object) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        watched = Watched(context)
        made.append((context, watched))
        watched.page.goto(f"{console.url}/#/{place}")
        return watched.page

    yield look
    for context, watched in made:
        context.close()
        assert watched.complaints == []


# What must hold of every page for those who hear it, or have no mouse.
_ACCESSIBLE = """() => {
  const wrong = [];
  const named = (each) => (each.getAttribute("aria-label") || each.textContent || "").trim() || each.labels?.length;
  if (document.documentElement.lang !== "en") wrong.push("no language");
  if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  if (!document.querySelector("nav[aria-label]")) wrong.push("no named nav");
  for (const each of document.querySelectorAll("input, select, textarea")) {
    if (!each.getAttribute("aria-label") && !each.labels.length) wrong.push(`no label: ${each.outerHTML}`);
  }
  for (const each of document.querySelectorAll("button, a[href]")) {
    if (!named(each)) wrong.push(`no name: ${each.outerHTML}`);
  }
  for (const each of document.querySelectorAll("table:not(.u-legend)")) {
    if (!each.getAttribute("aria-label")) wrong.push("a table without a name");
    if (!each.querySelector("thead th[scope=col]")) wrong.push(`no heads: ${each.outerHTML.slice(0, 80)}`);
  }
  for (const each of document.querySelectorAll("img")) if (!each.hasAttribute("alt")) wrong.push("no alt");
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) wrong.push(`twice: ${id}`);
  return wrong;
}"""


def test_every_page_loads(look, console: Console):
    page = look(console)
    for place in PAGES:
        page.goto(f"{console.url}/#/{place}")
        expect(page.locator("h1")).to_have_text(place.capitalize())
        expect(page.locator(".loading")).to_have_count(0)
        expect(page.locator(".notice.bad")).to_have_count(0)
        expect(page).to_have_title(f"{place.capitalize()} · tidelog")
        here = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
        expect(here).to_have_text(place.capitalize())
        assert page.evaluate(_ACCESSIBLE) == [], place


def test_a_topic_is_created_written_to_tailed_searched_and_deleted(look, console: Console):
    page = look(console, "topics")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("by-hand")
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("Settings").fill("retention.ms=3600000")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("h1")).to_have_text("by-hand")
    expect(page.get_by_text("There are no messages here.")).to_be_visible()

    produce(
        page,
        '{"customer": 42, "html": "<img src=x onerror=alert(1)>"}',
        key="k1",
        headers="source=shop",
    )
    expect(page.get_by_text("at offset 0")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="k1")
    expect(row).to_contain_text("<img src=x onerror=alert(1)>")  # as text
    row.get_by_role("button").click()
    detail = page.locator(".message-detail")
    expect(detail).to_contain_text('"customer": 42')
    expect(detail).to_contain_text("source")
    expect(detail).to_contain_text("json")
    assert page.evaluate(_ACCESSIBLE) == []

    page.get_by_role("button", name="Live tail").click()
    expect(page.get_by_role("status").first).to_contain_text("Live")
    produce(page, "second", format="text")
    expect(page.get_by_role("cell", name="second")).to_be_visible()
    console.post("/topics/by-hand/messages", {"value": "from elsewhere"})
    expect(page.get_by_role("cell", name="from elsewhere")).to_be_visible()
    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_role("cell", name="from elsewhere")).to_be_visible()
    page.get_by_label("Search").fill("ELSEWHERE")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("table.messages tbody tr")).to_have_count(1)
    page.get_by_label("Search").fill("")
    page.get_by_label("Where", exact=True).fill("value.customer=42")
    page.keyboard.press("Enter")
    expect(page.locator("table.messages tbody tr")).to_have_count(1)
    expect(page.locator("table.messages tbody tr")).to_contain_text("k1")

    page.get_by_role("link", name="Partitions").click()
    expect(page.get_by_role("table", name="Partitions").locator("tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Only what is not the default").check()
    expect(page.get_by_role("row").filter(has_text="retention.ms")).to_contain_text("3600000")

    page.get_by_role("button", name="Delete").click()
    delete = page.get_by_role("button", name="Delete the topic")
    expect(delete).to_be_disabled()
    page.get_by_label("Type by-hand to confirm").fill("by-hand")
    delete.click()
    expect(page.locator("h1")).to_have_text("Topics")
    assert console.ask("GET", "/topics/by-hand").status == 404


def produce(
    page: Page, value: str, *, key: str = "", headers: str = "", format: str = "json"
) -> None:
    page.get_by_role("button", name="Produce a message").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key", exact=True).fill(key)
    dialog.get_by_label("Value as").select_option(format)
    dialog.get_by_label("Value", exact=True).fill(value)
    dialog.get_by_label("Headers").fill(headers)
    dialog.get_by_role("button", name="Produce").click()
    expect(dialog).to_have_count(0)


def test_what_cannot_be_written_is_said_in_the_dialog(look, console: Console, topic: MakeTopic):
    page = look(console, f"topics/{topic()}")
    page.get_by_role("button", name="Produce a message").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill("{")
    dialog.get_by_role("button", name="Produce").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not JSON")
    dialog.get_by_label("Value", exact=True).fill("{}")  # and it can be mended
    dialog.get_by_role("button", name="Produce").click()
    expect(page.locator("table.messages tbody tr")).to_have_count(1)


def test_jumping_to_an_offset_and_to_a_time_and_older_ones(look, console, topic, broker):
    name = topic()
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for number in range(120):
            producer.send(name, b"v%d" % number, timestamp=1_700_000_000_000 + number * 1000)
    page = look(console, f"topics/{name}")
    rows = page.locator("table.messages tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("v119")  # the newest first
    expect(rows.last).to_contain_text("v70")
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(100)
    expect(rows.last).to_contain_text("v20")
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(120)
    expect(page.get_by_text("The beginning of the topic")).to_be_visible()
    page.get_by_label("Show").select_option("offset")
    page.get_by_label("Offset").fill("115")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(5)
    page.get_by_label("Show").select_option("time")
    page.get_by_label("Time").fill("@1700000100000")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(20)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export JSON").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert json.loads(lines[0])["value"] == "v100"


def test_a_group_is_reset_after_a_dry_run(look, console, topic, admin: Admin, broker):
    name = topic()
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for _ in range(9):
            producer.send(name, b"x")
    group = f"readers-of-{name}"
    admin.alter_group_offsets(group, {TopicPartition(name, 0): 2})
    page = look(console, "groups")
    page.get_by_role("link", name=group).click()
    expect(page.get_by_role("table", name="Partitions of the group")).to_contain_text("7")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Go on at").select_option("end")
    dialog.get_by_role("button", name="Show what would be done").click()
    expect(dialog.get_by_role("table", name="What would be done")).to_contain_text("+7")
    assert admin.group_offsets(group)[TopicPartition(name, 0)].offset == 2  # not yet
    dialog.get_by_role("button", name="Reset the offsets").click()
    expect(dialog).to_have_count(0)
    assert admin.group_offsets(group)[TopicPartition(name, 0)].offset == 9
    expect(page.locator(".tile").filter(has_text="messages not read")).to_contain_text("0")


def test_schemas_quotas_and_settings(look, console: Console, topic: MakeTopic):
    subject = f"{topic()}-value"
    page = look(console, "schemas")
    page.get_by_role("button", name="Register a schema").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Subject").fill(subject)
    dialog.get_by_label("Schema", exact=True).fill('{"type": "record", "name": "A", "fields": []}')
    dialog.get_by_role("button", name="Check").click()
    expect(dialog.get_by_text("It can be registered.")).to_be_visible()
    dialog.get_by_role("button", name="Register").click()
    page.get_by_role("navigation", name="Subjects").get_by_role("link", name=subject).click()
    expect(page.locator("pre.schema")).to_contain_text('"name": "A"')
    assert page.evaluate(_ACCESSIBLE) == []

    page.get_by_role("link", name="Quotas").click()
    page.get_by_role("button", name="Set a quota").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Client id").fill("greedy-one")
    dialog.get_by_label("Produce").fill("1000000")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="greedy-one")).to_contain_text("1 MB/s")

    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Brokers").click()
    page.get_by_label("Filter settings").fill("ssl.key.password")
    expect(page.get_by_role("row").filter(has_text="ssl.key.password")).to_contain_text("hidden")
    page.get_by_label("Filter settings").fill("delete.topic.enable")
    page.get_by_role("button", name="Change delete.topic.enable").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill("perhaps")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_contain_text("delete.topic.enable")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_the_audit_is_a_heat_map(look, console: Console, topic: MakeTopic, broker: LocalBroker):
    name = topic()
    with Producer({"bootstrap.servers": broker.bootstrap}, audit=True) as producer:
        producer.send(name, b"counted")
    page = look(console, "audit")
    row = page.get_by_role("row").filter(has_text=name)
    row.get_by_role("button").first.click()
    expect(page.get_by_role("table", name="Counts of the window")).to_contain_text("producer")
    assert page.evaluate(_ACCESSIBLE) == []


def test_keyboard_alone(look, console: Console, topic: MakeTopic):
    name = topic()
    page = look(console, "overview")
    expect(page.locator("h1")).to_have_text("Overview")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_role("link", name="Topics", exact=True).first.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Topics")
    expect(page.locator("h1")).to_be_focused()  # a screen reader begins here
    page.get_by_role("link", name=name).focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(name)
    opener = page.get_by_role("button", name="Produce a message")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(30):  # the focus stays inside
        page.keyboard.press("Tab")
        inside = (
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
        assert page.evaluate(inside)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


def ground(page: Page) -> list[int]:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(each) for each in re.findall(r"\d+", colour)[:3]]


def test_dark_and_light(look, console: Console):
    page = look(console, "topics", color_scheme="dark")
    expect(page.locator("h1")).to_have_text("Topics")
    assert max(ground(page)) < 64
    page.get_by_role("button", name="Switch to the light theme").click()
    assert min(ground(page)) > 192
    page.reload()
    expect(page.locator("h1")).to_have_text("Topics")
    assert min(ground(page)) > 192  # it is remembered
    page.get_by_role("button", name="Switch to the dark theme").click()
    assert max(ground(page)) < 64


_CONTRAST = """() => {
  const probe = document.createElement("span");
  document.body.append(probe);
  const light = (name) => {
    probe.style.color = `var(${name})`;
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const pairs = [["--text", "--ground"], ["--text", "--panel"], ["--muted", "--ground"], ["--muted", "--panel"], ["--muted", "--raised"],
    ["--accent", "--panel"], ["--accent", "--raised"], ["--on-accent", "--accent"], ["--accent-strong", "--info-ground"],
    ["--good", "--good-ground"], ["--warn", "--warn-ground"], ["--bad", "--bad-ground"], ["--bad", "--panel"], ["--panel", "--bad"], ["--good", "--panel"]];
  return pairs.map(([front, back]) => {
    const [one, two] = [light(front), light(back)].sort((a, b) => b - a);
    return [front, back, (one + 0.05) / (two + 0.05)];
  });
}"""


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_contrast(look, console: Console, theme: str):
    page = look(console, "topics", color_scheme=theme)
    expect(page.locator("h1")).to_have_text("Topics")
    weak = [each for each in page.evaluate(_CONTRAST) if each[2] < 4.5]  # WCAG 2, level AA
    assert weak == []


def test_login_where_the_broker_asks_for_one(look, secured: Console):
    page = look(secured, "access")
    expect(page.locator("h1")).to_have_text("Log in")
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill("not-the-one")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("refused")
    page.get_by_label("Password").fill("keep-it-secret")
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("h1")).to_have_text("Access")
    assert page.evaluate("document.cookie") == ""  # scripts cannot see it

    page.get_by_role("button", name="Add a rule").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Principal").fill("User:bob")
    dialog.get_by_label("Name", exact=True).fill("orders")
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("table", name="Access rules")).to_contain_text("User:bob")
    page.get_by_role("button", name="Remove: User:bob allow read topic orders").click()
    page.get_by_role("button", name="Remove the rule").click()
    expect(page.get_by_text("User:bob")).to_have_count(0)

    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("User").fill("bob")
    dialog.get_by_label("Password").fill("hush-hush")
    dialog.get_by_label("Once more").fill("hush-hush")
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("table", name="Users")).to_contain_text("bob")
    assert "hush-hush" not in page.content()
    assert page.evaluate(_ACCESSIBLE) == []
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Log in")


def test_read_only(look, read_only: Console, topic: MakeTopic):
    name = topic()
    page = look(read_only, "topics")
    expect(page.get_by_text("read-only")).to_be_visible()
    expect(page.get_by_role("link", name=name)).to_be_visible()
    expect(page.get_by_role("button", name="Create a topic")).to_have_count(0)
    page.get_by_role("link", name=name).click()
    expect(page.get_by_text("There are no messages here.")).to_be_visible()
    for button in ("Produce a message", "Delete", "Add partitions"):
        expect(page.get_by_role("button", name=button)).to_have_count(0)


def test_what_is_not_there(look, console: Console):
    page = look(console, "topics/never-made")
    expect(page.get_by_role("alert")).to_contain_text("no such topic")
    page.goto(f"{console.url}/#/nonsense")
    expect(page.get_by_text("There is no such page.")).to_be_visible()


def test_nothing_is_loaded_from_elsewhere(look, console: Console):
    page = look(console)
    foreign: list[str] = []
    page.on(
        "request",
        lambda request: request.url.startswith(console.url) or foreign.append(request.url),
    )
    page.reload()
    expect(page.get_by_role("table", name="Brokers")).to_be_visible()
    assert foreign == []


def test_a_page_of_another_site_gets_nothing(browser: Browser, console: Console):
    """Another port of this machine is another site as far as we are concerned."""
    context = browser.new_context()
    page = context.new_page()
    page.goto("data:text/html,<h1>elsewhere</h1>")
    got = page.evaluate(
        """async (url) => {
          const results = [];
          for (const options of [{}, {mode: "no-cors", method: "POST", body: "{}"}, {method: "POST", headers: {"content-type": "application/json"}, body: '{"name": "stolen"}'}]) {
            try { results.push((await fetch(url + "/api/v1/topics", options)).type); } catch { results.push("refused"); }
          }
          return results;
        }""",
        console.url,
    )
    assert got[0] == "refused"
    assert got[2] == "refused"
    assert all(each["name"] != "stolen" for each in console.get("/topics"))
    context.close()
