"""Two clusters, front ends with Avro events, a mirror between them, Spark loading a lake, and the audit of it all: `make demo`.

    front ends ──Avro──▶ live cluster ══mirror, exactly once══▶ offline cluster ──Spark──▶ lake ──▶ report by window
        └─count─┐            └─count─┐        └─count─┐               └─count─┐        └─count─┐
                └────────────────────┴──▶ _audit ─────┴───────────────────────┴────────────────┴──▶ tidelog audit

Everything is what a user would start: `tidelog serve`, `registry`, `mirror`, `spark load`, `spark sql`, `audit`.  Half-way the mirror is killed with
-9, and started again.  It ends by itself when the audit says that everything arrived, and the lake's windows add up to what was sent.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tidelog import Admin, Producer
from tidelog.audit.producing import ProducerAudit
from tidelog.schemas import AvroDeserializer, AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.testing.local_broker import LocalBroker

TOPICS = {
    "page-views": {
        "type": "record",
        "name": "PageView",
        "namespace": "demo",
        "fields": [{"name": "member", "type": "long"}, {"name": "page", "type": "string"}],
    },
    "orders": {
        "type": "record",
        "name": "Order",
        "namespace": "demo",
        "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
    },
}
FRONT_ENDS = 3
WINDOW = "5s"
WINDOW_MS = 5_000
TIERS = "producer,live,mirror,offline,lake"
PATIENCE = "10m"
SPARING = "spark.driver.memory=768m spark.ui.enabled=false spark.sql.shuffle.partitions=2"
REPORT = """
select topic, date_format(window(timestamp, '5 seconds').start, 'HH:mm:ss') window, count(*) events,
  count(distinct get_json_object(json, '$.member')) members, round(sum(get_json_object(json, '$.amount')), 2) amount
from lake group by topic, window(timestamp, '5 seconds') order by 1, 2
"""

Say = Callable[[str], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=14.0, help="how long the front ends send")
    seconds = parser.parse_args().seconds
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s  {text}", flush=True)

    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-demo-")))
        settings = {"group.initial.rebalance.delay.ms": "0"}
        live = stack.enter_context(LocalBroker(settings=settings))
        offline = stack.enter_context(LocalBroker(settings=settings))
        say(f"the live cluster is {live.bootstrap}, the offline cluster {offline.bootstrap}")
        registry = stack.enter_context(LocalRegistry(live.bootstrap))
        say(f"the schema registry is {registry.url}")
        with Admin(bootstrap_servers=live.bootstrap) as admin:
            admin.create_topics(dict.fromkeys(TOPICS, 2))
        mirror = Child(stack, logs / "mirror", mirror_command(live, offline, registry))
        say("the mirror copies page-views, orders and the counts, exactly once")
        for tier, broker in (("live", live), ("offline", offline)):
            words = ["audit", "count", tier, *TOPICS, "-b", broker.bootstrap, "--window", WINDOW]
            Child(stack, logs / tier, [*words, "--registry", registry.url])
        fleet = [FrontEnd(number, live, registry, seconds) for number in range(FRONT_ENDS)]
        for each in fleet:
            each.start()
        say(f"{FRONT_ENDS} front ends send Avro events for {seconds:.0f} s")
        lake = str(logs / "lake")
        words = load_command(lake, offline, registry)
        load = watch(say, live, offline, fleet, mirror, lambda: Child(stack, logs / "load", words))
        last = max(each.last_ms for each in fleet)
        say(f"the front ends are done: {sum(each.sent for each in fleet):,} events sent")
        show_event(say, offline, registry)
        sent = sum(each.sent for each in fleet)
        if code := audit(say, offline, last):
            return code
        load.end()
        return report(say, lake, sent, began)


def mirror_command(live: LocalBroker, offline: LocalBroker, registry: LocalRegistry) -> list[str]:
    return [
        *("mirror", "--from", f"live={live.bootstrap}", "--to", offline.bootstrap),
        *("--include", "page-views|orders|_audit", "--exactly-once", "--instance", "demo"),
        *("--look-interval", "1s", "--audit", "mirror", "--audit-window", WINDOW),
        *("--registry", registry.url, "--session-timeout", "6s"),
    ]


def load_command(lake: str, offline: LocalBroker, registry: LocalRegistry) -> list[str]:
    return [
        *("spark", "load", *TOPICS, "--table", lake, "-b", offline.bootstrap, "--every", "2s"),
        *(
            "--decode",
            "avro",
            "--registry",
            registry.url,
            "--audit",
            "lake",
            "--audit-window",
            WINDOW,
        ),
        *on_spark(),
    ]


def on_spark() -> list[str]:
    return ["--master", "local[2]", *(f"--conf={each}" for each in SPARING.split())]


class Child:
    """A command of tidelog's that runs beside us, and ends with the demo."""

    def __init__(self, stack: ExitStack, log: Path, words: list[str]) -> None:
        self._log = log
        self._command = [sys.executable, "-m", "tidelog", *words]
        self.start()
        stack.callback(self.end)

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


class FrontEnd(threading.Thread):
    """A web server, as far as the log sees it."""

    def __init__(
        self, number: int, live: LocalBroker, registry: LocalRegistry, seconds: float
    ) -> None:
        super().__init__(daemon=True)
        self._audit = ProducerAudit(
            window_ms=WINDOW_MS, interval_s=1.0, server=f"front-{number}", registry=registry.url
        )
        self._address = live.bootstrap
        self._registry = registry.url
        self._seconds = seconds
        self.sent = 0
        self.last_ms = 0

    def run(self) -> None:
        ends_at = time.monotonic() + self._seconds
        with (
            RegistryClient(self._registry) as client,
            Producer(bootstrap_servers=self._address, audit=self._audit) as producer,
        ):
            encode = {
                topic: AvroSerializer(client, schema, topic=topic)
                for topic, schema in TOPICS.items()
            }
            while time.monotonic() < ends_at:
                for _ in range(random.randrange(20, 60)):
                    member = random.randrange(1_000)
                    view = {"member": member, "page": f"/item/{random.randrange(50)}"}
                    producer.send("page-views", encode["page-views"](view), key=b"%d" % member)
                    self.sent += 1
                    if member < 100:
                        order = {"id": self.sent, "amount": member / 4}
                        producer.send("orders", encode["orders"](order), key=b"%d" % member)
                        self.sent += 1
                self.last_ms = time.time_ns() // 1_000_000
                time.sleep(0.05)


def watch(
    say: Say,
    live: LocalBroker,
    offline: LocalBroker,
    fleet: list[FrontEnd],
    mirror: Child,
    start_load: Callable[[], Child],
) -> Child:
    """A line now and then; Spark when there is something to load; and half-way an accident."""
    half = time.monotonic() + fleet[0]._seconds / 2
    hurt = False
    load: Child | None = None
    with (
        Admin(bootstrap_servers=live.bootstrap) as here,
        Admin(bootstrap_servers=offline.bootstrap) as there,
    ):
        while load is None or any(each.is_alive() for each in fleet):
            time.sleep(1.5)
            sent = sum(each.sent for each in fleet)
            say(f"sent {sent:7,}   live {held(here):7,}   offline {held(there):7,}")
            if load is None and set(TOPICS) <= set(there.list_topics()):
                load = start_load()
                say("Spark loads the offline cluster into a lake, every two seconds")
            if not hurt and time.monotonic() > half:
                hurt = True
                mirror.kill()
                mirror.start()
                say("the mirror was killed with -9, and started again")
    return load


def held(admin: Admin) -> int:
    """Offsets that the cluster's topics have got to; a commit takes one too."""
    there = set(admin.list_topics()) & set(TOPICS)
    return sum(end for topic in there for _, end in admin.watermarks(topic).values())


def show_event(say: Say, offline: LocalBroker, registry: LocalRegistry) -> None:
    from tidelog import Consumer

    with (
        RegistryClient(registry.url) as client,
        Consumer(
            topics="orders", bootstrap_servers=offline.bootstrap, auto_offset_reset="earliest"
        ) as consumer,
    ):
        decode = AvroDeserializer(client)
        message = consumer.poll(max_records=1, timeout=20)[0]
        say(f"an order as it is offline: {decode(message.value)}")


def audit(say: Say, offline: LocalBroker, last_ms: int) -> int:
    """Wait until all tiers agree on everything up to the last event, and show what they counted."""
    until = str(last_ms - last_ms % WINDOW_MS + WINDOW_MS)
    common = ["-b", offline.bootstrap, "--tiers", TIERS, "--grace", "2s"]
    tidelog = [sys.executable, "-m", "tidelog", "audit"]
    say("waiting for the audit")
    for topic in TOPICS:
        wait = [*tidelog, "wait", topic, "--until", until, "--timeout", PATIENCE, *common]
        if subprocess.run(wait, check=False).returncode:
            say("the audit is not complete")
            return 1
    subprocess.run([*tidelog, "report", *TOPICS, *common], check=False)
    say("complete: every event is in every tier")
    return 0


def report(say: Say, lake: str, sent: int, began: float) -> int:
    """What the lake has, by window; it must add up to what the front ends have sent."""
    say("asking the lake")
    words = ["spark", "sql", "--table", lake, "--json", *on_spark(), REPORT]
    command = [sys.executable, "-m", "tidelog", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"the lake does not answer: {done.stderr}")
        return 1
    rows = json.loads(done.stdout)
    print(f"{'TOPIC':12} {'WINDOW':9} {'EVENTS':>7} {'MEMBERS':>8} {'AMOUNT':>12}")
    for row in rows:
        amount = "" if row["amount"] is None else f"{row['amount']:,.2f}"
        members = row["members"] or ""
        print(f"{row['topic']:12} {row['window']:9} {row['events']:7,} {members:>8} {amount:>12}")
    there = sum(row["events"] for row in rows)
    say(f"sent {sent:,}, in the lake {there:,}; {time.monotonic() - began:.0f} s in all")
    return 0 if there == sent else 1


if __name__ == "__main__":
    sys.exit(main())
