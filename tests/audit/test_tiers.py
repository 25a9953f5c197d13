"""The tiers against a real broker: what they count is what was there."""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import aiokafka
import confluent_kafka
import pytest

from tidelog import Consumer, Producer
from tidelog.audit.interceptors import audit_aiokafka, audit_confluent
from tidelog.audit.ledger import Ledger
from tidelog.audit.producing import ProducerAudit
from tidelog.audit.reading import AuditReader
from tidelog.audit.tier import CountingTier, Tier
from tidelog.cli.main import main
from tidelog.testing.local_broker import LocalBroker

_numbers = itertools.count()
WINDOW = 1_000
OLD = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings={"group.initial.rebalance.delay.ms": "0"}) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"clicks{next(_numbers)}"


def counts(broker: LocalBroker, topic: str) -> dict[str, dict[int, int]]:
    """By tier what it has in which window."""
    ledger = Ledger()
    with AuditReader({"bootstrap.servers": broker.bootstrap}, ledger) as reader:
        reader.catch_up()
    found: dict[str, dict[int, int]] = {}
    for each in ledger.report(0, topics=[topic]):
        for tier, count in each.counts.items():
            if count:
                found.setdefault(tier, {})[each.start_ms - OLD] = count
    return found


def counting(tier: str = "producer", **rest) -> ProducerAudit:
    return ProducerAudit(tier, window_ms=WINDOW, **rest)


async def follow(broker: LocalBroker, topic: str, expected: int, tier: str = "live") -> None:
    """Run a counting tier until it has seen so many."""
    made = CountingTier(
        tier, [topic], {"bootstrap.servers": broker.bootstrap}, window_ms=WINDOW, interval_s=0.1
    )
    task = asyncio.ensure_future(made.run())
    async with asyncio.timeout(60):
        while made.counted < expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    made.stop()
    await task


def test_a_producer_counts_what_it_delivered(broker: LocalBroker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, audit=counting()) as producer:
        for number in range(100):
            producer.send(topic, b"v", timestamp=OLD + number * 30)
    assert counts(broker, topic) == {"producer": {0: 34, 1_000: 33, 2_000: 33}}


def test_the_switch_alone_is_enough(broker: LocalBroker, topic: str) -> None:
    with Producer(
        bootstrap_servers=broker.bootstrap, audit=True, value_serializer=str.encode
    ) as producer:
        producer.send(topic, "v")
    ledger = Ledger()
    with AuditReader({"bootstrap.servers": broker.bootstrap}, ledger) as reader:
        reader.catch_up()
    assert [each.counts["producer"] for each in ledger.report(0, topics=[topic])] == [1]


def test_a_transaction_that_was_aborted_does_not_count(broker: LocalBroker, topic: str) -> None:
    with Producer(
        bootstrap_servers=broker.bootstrap, transactional_id=topic, audit=counting()
    ) as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"v", timestamp=OLD)
            producer.flush()
            (producer.abort_transaction if number % 3 else producer.commit_transaction)()
    assert counts(broker, topic) == {"producer": {0: 2}}


def test_messages_are_stamped_with_the_servers_name(broker: LocalBroker, topic: str) -> None:
    """Whichever way they take: one with headers, one without, and those that join an open batch."""
    with Producer(bootstrap_servers=broker.bootstrap, audit=counting(server="front-7")) as producer:
        producer.send(topic, b"v", headers={"mine": b"1"}, timestamp=OLD)
        for _ in range(5):
            producer.send(topic, b"v", timestamp=OLD)
        producer.send_many(topic, [b"v", b"v"])
    with Consumer(
        topics=topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        found = []
        while len(found) < 8:
            found += consumer.poll(timeout=30)
    assert [dict(each.headers) for each in found] == [
        {"mine": b"1", "audit.server": b"front-7"},
        *([{"audit.server": b"front-7"}] * 7),
    ]


async def test_a_counting_tier_counts_once_whatever_happens(
    broker: LocalBroker, topic: str
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(3):
            for number in range(50):
                producer.send(topic, b"v", timestamp=OLD + number)
            producer.flush()
            await follow(broker, topic, 50)  # each run is a restart
    assert counts(broker, topic) == {"live": {0: 150}}


def test_a_tier_of_ones_own(broker: LocalBroker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send_many(topic, [b"a", b"b"])
    with (
        Consumer(
            topics=topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer,
        Tier("billing", bootstrap_servers=broker.bootstrap, window_ms=1 << 40) as tier,
    ):
        seen = 0
        while seen < 2:
            messages = consumer.poll(timeout=30)
            tier.count(*messages)
            seen += len(messages)
        tier.count_windows(topic, {OLD: 3})
    found = counts(broker, topic)["billing"]
    assert sorted(found.values()) == [2, 3]


def test_confluent_kafka_is_counted(broker: LocalBroker, topic: str) -> None:
    inner = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    told = []
    with audit_confluent(inner, window_ms=WINDOW) as producer:
        for number in range(20):
            producer.produce(
                topic, b"v", timestamp=OLD + number * 100, on_delivery=lambda e, m: told.append(m)
            )
    assert counts(broker, topic) == {"producer": {0: 10, 1_000: 10}}
    assert len(told) == 20
    with Consumer(
        topics=topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        message = consumer.poll(timeout=30)[0]
    assert {name for name, _ in message.headers} == {"audit.server"}


async def test_aiokafka_is_counted(broker: LocalBroker, topic: str) -> None:
    inner = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    async with audit_aiokafka(inner, window_ms=WINDOW) as producer:
        for number in range(20):
            await producer.send(topic, b"v", timestamp_ms=OLD + number * 100)
    assert await asyncio.to_thread(counts, broker, topic) == {"producer": {0: 10, 1_000: 10}}


async def test_the_commands_tell_the_truth(
    broker: LocalBroker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["-b", broker.bootstrap]

    def tidelog(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        caught = capsys.readouterr()
        return code, caught.out + caught.err

    with Producer(bootstrap_servers=broker.bootstrap, audit=counting()) as producer:
        for number in range(1_000):
            producer.send(topic, b"v", timestamp=OLD + number // 500 * WINDOW)
    # A tier that loses 37 of the second window on purpose.
    with Tier("lake", bootstrap_servers=broker.bootstrap, window_ms=WINDOW) as tier:
        tier.count_windows(topic, {OLD: 500, OLD + WINDOW: 463})
    page = tmp_path / "audit.html"
    both = ["--tiers", "producer,lake"]
    code, said = await asyncio.to_thread(
        tidelog, "audit", "report", topic, *here, *both, "--html", str(page)
    )
    assert code == 1
    assert "lake:37" in said
    assert "37 missing" in page.read_text()
    code, said = await asyncio.to_thread(tidelog, "audit", "report", topic, *here, *both, "--json")
    windows = json.loads(said)["windows"]
    assert [each["missing"] for each in windows] == [{}, {"lake": 37}]
    until = str(OLD + WINDOW)
    assert (
        await asyncio.to_thread(tidelog, "audit", "wait", topic, "--until", until, *here, *both)
    )[0] == 0
    later = str(OLD + 2 * WINDOW)
    code, said = await asyncio.to_thread(
        tidelog, "audit", "wait", topic, "--until", later, "--timeout", "0s", *here, *both
    )
    assert code == 1
    assert f"{topic} 2023-11-14T22:13:21.000Z: 37 missing in lake of 500" in said
    with Tier("lake", bootstrap_servers=broker.bootstrap, window_ms=WINDOW) as tier:
        tier.count_windows(topic, {OLD + WINDOW: 37})  # they come late, after a restart
    code, said = await asyncio.to_thread(
        tidelog, "audit", "watch", topic, "--for", "1s", *here, *both
    )
    assert said.count("complete") == 2
    code, said = await asyncio.to_thread(tidelog, "audit", "report", topic, *here, *both)
    assert code == 0


def test_an_alert_runs_a_command_once_for_each_window(
    broker: LocalBroker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Tier("producer", bootstrap_servers=broker.bootstrap, window_ms=WINDOW) as tier:
        tier.count_windows(topic, {OLD: 500, OLD + WINDOW: 500})
    with Tier("lake", bootstrap_servers=broker.bootstrap, window_ms=WINDOW) as tier:
        tier.count_windows(topic, {OLD: 500, OLD + WINDOW: 463})
    told = tmp_path / "told"
    watch = ["audit", "watch", topic, "-b", broker.bootstrap, "--tiers", "producer,lake"]
    command = f"cat >> {told}; echo >> {told}; exit 3"
    assert main([*watch, "--for", "2s", "--alert", command]) == 0
    [line] = told.read_text().splitlines()
    found = json.loads(line)
    assert (found["topic"], found["start_ms"]) == (topic, OLD + WINDOW)
    assert found["missing"] == {"lake": 37}
    assert "37 missing in lake of 500" in found["message"]
    caught = capsys.readouterr()
    assert "ALERT" in caught.out
    assert "exit code 3" in caught.err  # a command that fails is told, and the watch goes on


def test_the_page_shows_every_tier_and_what_is_wrong(
    broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    for name, counts_ in (("producer", {OLD: 500, OLD + WINDOW: 500}), ("<lake>", {OLD: 512})):
        with Tier(name, bootstrap_servers=broker.bootstrap, window_ms=WINDOW) as tier:
            tier.count_windows(topic, counts_)
    page = tmp_path / "audit.html"
    report = ["audit", "report", topic, "-b", broker.bootstrap, "--tiers", "producer,<lake>"]
    assert main([*report, "--html", str(page)]) == 1
    root = ElementTree.fromstring(_as_xml(page.read_text()))
    assert [each.text for each in root.iter("th")] == ["window", "producer", "<lake>", None]
    cells = ["".join(each.itertext()) for each in root.iter("td")]
    assert cells[1:4] == ["500500 late", "51212 twice512 late", "incomplete"]
    assert cells[5:8] == ["500500 late", "0500 missing", "incomplete"]
    bars = list(root.iter("rect"))
    assert [each.get("class") for each in bars] == ["ok", "bad", "ok", "bad"]
    assert [int(each.get("height", "0")) for each in bars] == [117, 120, 117, 1]


def _as_xml(page: str) -> str:
    """What a browser forgives and a parser of XML does not."""
    closed = page.replace("<!doctype html>", "").replace("<br>", "<br/>")
    closed = closed.replace("<meta charset=utf-8>", "")
    return re.sub(r"=([\w-]+)(?=[\s>/])", r'="\1"', closed)
