"""Two clusters and two mirrors between them, while `kill -9` takes mirrors and both sides' brokers at random moments.

Every message arrives; in transactions exactly once, and the audit, which was counting all the while, says so.
"""

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.audit.ledger import Ledger
from tidelog.audit.producing import ProducerAudit
from tidelog.audit.reading import AuditReader
from tidelog.audit.tier import CountingTier, Tier
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

SECONDS = float(os.environ.get("TIDELOG_MIRROR_SECONDS", "15"))
"""How long everything is killed; five minutes by hand."""
PARTITIONS = 3
PER_SECOND = 400
WINDOW_MS = 5_000
PATIENCE_S = 180.0
DROPPED = 37
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


class MirrorProcess:
    """`tidelog mirror` in a child process, under a name that it keeps when it is started again."""

    def __init__(
        self, name: str, live: LocalBroker, offline: LocalBroker, log: Path, *more: str
    ) -> None:
        self._log = log / f"mirror-{name}.log"
        self._command = [
            *(sys.executable, "-m", "tidelog", "mirror"),
            *("--from", f"live={live.bootstrap}", "--to", offline.bootstrap),
            *("--include", "orders|_audit", "--instance", name, "--session-timeout", "6s"),
            *("--look-interval", "1s", "--json", "--every", "1s", *more),
        ]
        self.lives = 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")


class FrontEnd(threading.Thread):
    """A producer that goes on whatever happens, and counts for the audit."""

    def __init__(self, live: LocalBroker) -> None:
        super().__init__(daemon=True)
        self._live = live.bootstrap
        self._stopping = threading.Event()
        self.sent = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        audit = ProducerAudit(window_ms=WINDOW_MS, interval_s=1.0)
        try:
            with Producer(
                bootstrap_servers=self._live,
                delivery_timeout_ms=600_000,
                audit=audit,
            ) as producer:
                while not self._stopping.is_set():
                    for _ in range(PER_SECOND // 20):
                        producer.send("orders", b"%d" % self.sent, partition=self.sent % PARTITIONS)
                        self.sent += 1
                    self._stopping.wait(0.05)
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


@contextmanager
def brokers() -> Iterator[tuple[LocalBroker, LocalBroker]]:
    with ExitStack() as stack:
        both = [LocalBroker(settings=SETTINGS), LocalBroker(settings=SETTINGS)]
        for each in both:
            stack.callback(each.close)
            stack.callback(each.kill)
            each.start()
            with Admin(bootstrap_servers=each.bootstrap) as admin:
                if each is both[0]:
                    admin.create_topics({"orders": PARTITIONS})
        yield both[0], both[1]
        for each in both:
            assert "Traceback" not in each.log(), each.log()


def arrived(offline: LocalBroker, count: int) -> Counter[int]:
    """How often each message is there, once there are `count` different ones, or nothing comes any more."""
    found: Counter[int] = Counter()
    with Admin(bootstrap_servers=offline.bootstrap) as admin:
        deadline = time.monotonic() + PATIENCE_S
        while "orders" not in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.1)
    last_news = time.monotonic()
    with Consumer(
        bootstrap_servers=offline.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign([TopicPartition("orders", index) for index in range(PARTITIONS)])
        quiet_s = 0.0
        while (len(found) < count or quiet_s < 2) and quiet_s < PATIENCE_S:
            messages = consumer.poll(max_records=5_000, timeout=0.5)
            found.update(int(each.value) for each in messages)
            last_news = time.monotonic() if messages else last_news
            quiet_s = time.monotonic() - last_news
    return found


def torment(mirrors: list[MirrorProcess], both: tuple[LocalBroker, LocalBroker], seed: int) -> None:
    """Kill something, again and again; whatever was killed is started again at once."""
    chance = random.Random(seed)
    ends_at = time.monotonic() + SECONDS
    while time.monotonic() < ends_at:
        time.sleep(chance.uniform(0.3, 3.0))
        victim = chance.choice([*mirrors, *mirrors, *both])
        if isinstance(victim, LocalBroker):
            victim.restart(kill=chance.random() < 0.7)
        else:
            victim.kill()
            victim.start()


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly-once", "at-least-once"])
def test_every_message_arrives(tmp_path: Path, exactly_once: bool) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    more = ["--exactly-once", "--audit", "mirror", "--audit-window", "5s"] if exactly_once else []
    with brokers() as (live, offline):
        mirrors: list[MirrorProcess] = []
        front_end = FrontEnd(live)
        try:
            for name in ("a", "b"):
                mirrors.append(MirrorProcess(name, live, offline, tmp_path, *more))
            front_end.start()
            torment(mirrors, (live, offline), seed)
            front_end.stop()
            found = arrived(offline, front_end.sent)
            missing = [number for number in range(front_end.sent) if number not in found]
            assert not missing, (
                len(missing),
                missing[:10],
                [each.log()[-2000:] for each in mirrors],
            )
            if exactly_once:
                assert set(found.values()) == {1}
                check_audit(live, offline, front_end.sent)
            assert sum(each.lives for each in mirrors) > 2
            assert all("Traceback" not in each.log() for each in mirrors)
        finally:
            for each in mirrors:
                each.kill()
        print(
            f"{front_end.sent} messages, {sum(found.values()) - front_end.sent} repeats, lives {[each.lives for each in mirrors]}"
        )


def check_audit(live: LocalBroker, offline: LocalBroker, sent: int) -> None:
    """All tiers have all of it; and a tier that loses some on purpose is found out."""
    asyncio.run(count(offline, "offline", sent))
    there = {"bootstrap.servers": offline.bootstrap}
    tiers = ["producer", "mirror", "offline"]
    ledger = Ledger(grace_ms=0)
    far = (1 << 50) + int(time.time() * 1000)
    with AuditReader(there, ledger) as reader:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:  # the producer's last counts are mirrored as well
            reader.catch_up()
            reports = ledger.report(far, topics=["orders"], tiers=tiers)
            if sum(each.counts["producer"] for each in reports) == sent:
                break
            time.sleep(0.1)
        assert [(each.missing, each.duplicated) for each in reports] == [({}, {})] * len(reports)
        assert sum(each.counts["offline"] for each in reports) == sent
        lossy = max(reports, key=lambda each: each.expected)
        with Tier("lake", there, window_ms=WINDOW_MS) as lake:
            for each in reports:
                lost = DROPPED if each is lossy else 0
                lake.count_windows("orders", {each.start_ms: each.expected - lost})
        reader.catch_up()
        wrong = [
            (each.topic, each.start_ms, each.missing)
            for each in ledger.report(far, topics=["orders"], tiers=[*tiers, "lake"])
            if each.missing or each.duplicated
        ]
    assert wrong == [("orders", lossy.start_ms, {"lake": DROPPED})]


async def count(broker: LocalBroker, name: str, expected: int) -> None:
    tier = CountingTier(
        name,
        ["orders"],
        {"bootstrap.servers": broker.bootstrap},
        window_ms=WINDOW_MS,
        interval_s=0.2,
    )
    task = asyncio.ensure_future(tier.run())
    async with asyncio.timeout(PATIENCE_S):
        while tier.counted < expected:  # noqa: ASYNC110 - it is about another process
            await asyncio.sleep(0.05)
    tier.stop()
    await task
