"""Pictures of the console for docs/console: a cluster with something going on, and Chromium (scripts/chromium.sh).

    python scripts/console_screenshots.py            # all
    python scripts/console_screenshots.py audit      # those whose name has it

Needs Pillow, to keep the files small.
"""

import io
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "console"))

from chromium import chromium
from consoles import Console
from playwright.sync_api import Browser, Page, expect

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.audit.encoding import EventWriter
from tidelog.audit.events import TOPIC, AuditEvent
from tidelog.client.admin_security import Acl
from tidelog.schemas import AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.testing.local_broker import LocalBroker
from tidelog.testing.local_cluster import LocalCluster

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "console"
SIZE = {"width": 1280, "height": 800}
MOST_BYTES = 150_000
CHARTED_S = 75
COLOURS = 256

ORDER = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop",
    "fields": [
        {"name": "order", "type": "long"},
        {"name": "amount", "type": "double"},
        {
            "name": "currency",
            "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]},
        },
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def main(wanted: list[str]) -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(3))
        registry = stack.enter_context(LocalRegistry(cluster.bootstrap))
        config = {"bootstrap.servers": cluster.bootstrap}
        prepare(config, registry.url)
        stack.enter_context(traffic(config))
        console = stack.enter_context(Console(config, registry_url=registry.url))
        browser = stack.enter_context(chromium())
        print(f"{CHARTED_S} s of traffic, for the charts", flush=True)
        time.sleep(CHARTED_S)
        for name, place, theme, act in SHOTS:
            if not wanted or any(each in name for each in wanted):
                shoot(browser, console, name, place, theme, act)
        if not wanted or any(each in "access login" for each in wanted):
            secured_pictures(browser)
    return 0


# ---------------------------------------------------------------------- something to see


def prepare(config: dict[str, str], registry_url: str) -> None:
    with Admin(config) as admin:
        for name, partitions in {"orders": 6, "payments": 3, "clicks": 12, "shipments": 3}.items():
            admin.create_topics({name: partitions}, replication_factor=3)
        admin.alter_topic_configs(
            "clicks", {"retention.ms": "86400000", "compression.type": "zstd"}
        )
        admin.alter_client_quotas({"user": None}, {"producer_byte_rate": 10_000_000.0})
        admin.alter_client_quotas(
            {"client-id": "reports"},
            {"consumer_byte_rate": 5_000_000.0, "request_percentage": 50.0},
        )
        admin.alter_client_quotas(
            {"user": "alice", "client-id": "etl"}, {"producer_byte_rate": 2_000_000.0}
        )
        admin.create_topics({TOPIC: 1})
        audit(config)
        admin.alter_group_offsets("nightly-report", {TopicPartition("orders", 0): 0})
    serialize = AvroSerializer(RegistryClient(registry_url), ORDER, topic="payments")
    other = {
        **ORDER,
        "fields": [*ORDER["fields"], {"name": "shop", "type": "string", "default": ""}],
    }
    with RegistryClient(registry_url) as client, Producer(config) as producer:
        for number in range(40):
            payment = {"order": number, "amount": 9.5 * number, "currency": "EUR", "note": None}
            producer.send("payments", serialize(payment), f"{number}".encode())
        client.register("payments-value", json.dumps(other))
        client.register("orders-key", '"string"')
        client.register("clicks-value", '{"type": "record", "name": "Click", "fields": []}')


def audit(config: dict[str, str]) -> None:
    """Counts of the last hours, with a hole."""
    minutes = 10
    length = minutes * 60_000
    now = int(time.time() * 1000)
    first = (now // length - 40) * length
    chance = random.Random(3)
    writer = EventWriter()
    with Producer(config) as producer:
        for topic, many in {"orders": 4200, "payments": 900, "clicks": 61_000}.items():
            for turn in range(41):
                start = first + turn * length
                count = many + chance.randrange(many // 5)
                lost = 37 if topic == "clicks" and turn in (17, 18) else 0
                for tier, seen in {
                    "producer": count,
                    "cluster": count,
                    "lake": count - lost,
                }.items():
                    event = AuditEvent(
                        tier, "a", f"{tier}-1", topic, start, length, seen, start + length
                    )
                    producer.send(TOPIC, writer.write(event), event.key)


@contextmanager
def traffic(config: dict[str, str]) -> Iterator[None]:
    """Somebody buys, and somebody reads, not quite fast enough."""
    over = threading.Event()

    def buy() -> None:
        chance = random.Random(1)
        number = 0
        with Producer(config) as producer:
            while not over.wait(0.05):
                wave = 1.5 + chance.random() + abs(time.time() % 40 - 20) / 10
                for _ in range(int(6 * wave)):
                    number += 1
                    producer.send(
                        "orders",
                        order(number, chance),
                        f"customer-{chance.randrange(90)}".encode(),
                        headers={"source": b"web", "trace": b"%016x" % chance.getrandbits(64)},
                    )
                    producer.send("clicks", f"/product/{chance.randrange(500)}".encode())

    def read(group: str, pause: float, member: str) -> None:
        given = {"group.id": group, "client.id": member, "auto.offset.reset": "earliest"}
        with Consumer(
            {**config, **given, "auto.commit.interval.ms": "1000"}, topics=["orders"]
        ) as consumer:
            while not over.wait(pause):
                consumer.poll(40, timeout=0.5)

    threads = [
        threading.Thread(target=buy),
        threading.Thread(target=read, args=("billing", 0.1, "billing-1")),
        threading.Thread(target=read, args=("billing", 0.1, "billing-2")),
        threading.Thread(target=read, args=("recommendations", 1.2, "recommender")),
    ]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


def order(number: int, chance: random.Random) -> bytes:
    what = {
        "order": number,
        "customer": chance.randrange(90),
        "items": [{"sku": f"A-{chance.randrange(900):03}", "quantity": chance.randrange(1, 4)}],
        "total": round(chance.uniform(5, 120), 2),
        "currency": "EUR",
    }
    return json.dumps(what).encode()


# ---------------------------------------------------------------------- pictures


def open_message(page: Page) -> None:
    page.locator("table.messages tbody tr button.twist").nth(3).click()


def go_live(page: Page) -> None:
    page.get_by_role("button", name="Live tail").click()
    page.get_by_text("Live ·").wait_for()
    page.locator("table.messages tbody tr").nth(12).wait_for()


def choose_bad_window(page: Page) -> None:
    page.locator(".cell.bad").nth(1).click()


def dry_run(page: Page) -> None:
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("Go on at").select_option("end")
    page.get_by_role("button", name="Show what would be done").click()
    page.get_by_role("table", name="What would be done").wait_for()


def nothing(page: Page) -> None:
    """The page is the picture."""


SHOTS = [
    ("overview", "overview", "light", nothing),
    ("overview-dark", "overview", "dark", nothing),
    ("topics", "topics", "light", nothing),
    ("messages", "topics/orders", "light", open_message),
    ("tail-dark", "topics/orders", "dark", go_live),
    ("avro", "topics/payments", "light", open_message),
    ("partitions", "topics/orders/partitions", "light", nothing),
    ("settings", "topics/clicks/settings", "light", nothing),
    ("groups", "groups", "light", nothing),
    ("group", "groups/recommendations", "light", nothing),
    ("reset", "groups/nightly-report", "light", dry_run),
    ("schemas", "schemas/payments-value", "light", nothing),
    ("audit", "audit", "light", choose_bad_window),
    ("quotas", "quotas", "light", nothing),
    ("brokers", "brokers", "light", nothing),
]


def shoot(
    browser: Browser, console: Console, name: str, place: str, theme: str, act: object
) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{console.url}/#/{place}")
    settle(page)
    act(page)  # type: ignore[operator]
    settle(page)
    save(page, name)
    context.close()


def secured_pictures(browser: Browser) -> None:
    """Login, and access rules, need a broker that has them."""
    secured = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.plain.users": "admin:for-the-picture",
        "authorizer.class.name": "acls",
        "super.users": "User:admin",
    }
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with LocalBroker(settings=secured, protocol="SASL_PLAINTEXT") as broker:
        config = {"bootstrap.servers": broker.bootstrap, **client}
        login = {"sasl.username": "admin", "sasl.password": "for-the-picture"}
        with Admin({**config, **login}) as admin:
            admin.create_acls(
                [
                    Acl("topic", "orders", "User:alice", "read"),
                    Acl("topic", "orders", "User:alice", "describe"),
                    Acl("group", "billing", "User:alice", "read", pattern_type="prefixed"),
                    Acl("topic", "clicks", "User:tracker", "write"),
                    Acl("topic", "*", "User:intern", "delete", permission="deny"),
                ]
            )
            for user in ("alice", "tracker"):
                admin.set_scram_password(user, "for-the-picture")
        with Console(config) as console:
            context = browser.new_context(viewport=SIZE, color_scheme="light")
            page = context.new_page()
            page.goto(f"{console.url}/#/access")
            page.get_by_label("User").fill("admin")
            save(page, "login")
            page.get_by_label("Password").fill("for-the-picture")
            page.get_by_role("button", name="Log in").click()
            settle(page)
            save(page, "access")
            context.close()


def settle(page: Page) -> None:
    page.locator("#page-title").wait_for()
    expect(page.locator(".loading")).to_have_count(0, timeout=60_000)
    page.wait_for_timeout(400)  # charts are drawn after the frame they come with


def save(page: Page, name: str) -> None:
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot()))
    small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    path = PICTURES / f"{name}.png"
    small.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes", flush=True)
    assert size < MOST_BYTES, f"{name} has {size} bytes; {MOST_BYTES} are the most"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
