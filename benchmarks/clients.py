"""The clients side by side: ours, confluent-kafka, aiokafka and kafka-python on one broker, with the same records.

    python benchmarks/clients.py [--seconds 2] [--rounds 3] [--only tidelog,confluent-kafka] [--json results.json]

Each round runs every client once, so that a busy moment of the machine meets all of them; the best round counts.
Producing is `send` (its like) in a loop, then a flush; consuming is iteration (its like) over records that are there, and for
ours also `read_arrow`, which gives tables.  Beside records a second stands the processor time of a record in the client's
process, all its threads together, which a busy machine disturbs less.
All wait for `acks=all` and otherwise have their own defaults, batch size, linger and idempotence included, which differ.
The time includes connecting, and slower clients are given fewer records, so connecting weighs more on them, and on all
of them in short runs: use --seconds 5 or more before believing a ratio.
The machine is shared and noisy: believe ratios, and repeat.
"""

import argparse
import asyncio
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable

from tidelog import Admin, Consumer, Producer
from tidelog.testing.local_broker import LocalBroker

PARTITIONS = 4
SIZES = (200, 1000)
CODECS = ("none", "lz4", "zstd")

# The records look alike but are not the same, so that a codec has something to do: about 2 to 1.
_WORDS = b" ".join(b"%x" % (number * 2654435761 % 2**32) for number in range(400))


def records(size: int) -> list[bytes]:
    return [(_WORDS[place : place + size // 2] + b"=" * size)[:size] for place in range(500)]


def ours_produce(bootstrap: str, topic: str, codec: str, values: list[bytes], count: int) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        send = producer.send
        for _ in range(count // len(values)):
            for value in values:
                send(topic, value)


def confluent_produce(
    bootstrap: str, topic: str, codec: str, values: list[bytes], count: int
) -> None:
    from confluent_kafka import Producer as Theirs

    # Without a larger queue it raises BufferError after 100,000 messages.
    producer = Theirs(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for _ in range(count // len(values)):
        for value in values:
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    producer.flush()


def kafka_python_produce(
    bootstrap: str, topic: str, codec: str, values: list[bytes], count: int
) -> None:
    from kafka import KafkaProducer

    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, acks="all")
    for _ in range(count // len(values)):
        for value in values:
            producer.send(topic, value)
    producer.flush()
    producer.close()


def aiokafka_produce(
    bootstrap: str, topic: str, codec: str, values: list[bytes], count: int
) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, acks="all"
        )
        await producer.start()
        for _ in range(count // len(values)):
            for value in values:
                await producer.send(topic, value)
        await producer.flush()
        await producer.stop()

    asyncio.run(run())


def ours_produce_sets(
    bootstrap: str, topic: str, codec: str, values: list[bytes], count: int
) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        for _ in range(count // len(values)):
            producer.send_many(topic, values)


def ours_consume(bootstrap: str, topic: str, count: int) -> None:
    with Consumer(
        bootstrap_servers=bootstrap, topics=topic, auto_offset_reset="earliest"
    ) as consumer:
        left = count
        for _ in consumer:
            left -= 1
            if not left:
                break


def ours_read_arrow(bootstrap: str, topic: str, count: int) -> None:
    with Consumer(
        bootstrap_servers=bootstrap, topics=topic, auto_offset_reset="earliest"
    ) as consumer:
        left = count
        while left > 0:
            left -= consumer.read_arrow(timeout=1).num_rows


def confluent_consume(bootstrap: str, topic: str, count: int) -> None:
    from confluent_kafka import Consumer as Theirs

    consumer = Theirs(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"}
    )
    _assign_all(consumer, topic)
    left = count
    while left > 0:
        left -= len(consumer.consume(1000, timeout=1))
    consumer.close()


def confluent_poll(bootstrap: str, topic: str, count: int) -> None:
    from confluent_kafka import Consumer as Theirs

    consumer = Theirs(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"}
    )
    _assign_all(consumer, topic)
    left = count
    while left > 0:
        if consumer.poll(1) is not None:
            left -= 1
    consumer.close()


def _assign_all(consumer: object, topic: str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer.assign(  # type: ignore[attr-defined]
        [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
    )


def kafka_python_consume(bootstrap: str, topic: str, count: int) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    left = count
    for _ in consumer:
        left -= 1
        if not left:
            break
    consumer.close()


def aiokafka_consume(bootstrap: str, topic: str, count: int) -> None:
    from aiokafka import AIOKafkaConsumer

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        left = count
        async for _ in consumer:
            left -= 1
            if not left:
                break
        await consumer.stop()

    asyncio.run(run())


Produce = Callable[[str, str, str, list[bytes], int], None]
Consume = Callable[[str, str, int], None]

# Beside each: how many records it is given a second of measuring, so that the slow ones end too.
PRODUCERS: dict[str, tuple[Produce, int]] = {
    "tidelog": (ours_produce, 1_000_000),
    "tidelog send_many": (ours_produce_sets, 1_000_000),
    "confluent-kafka": (confluent_produce, 750_000),
    "aiokafka": (aiokafka_produce, 75_000),
    "kafka-python": (kafka_python_produce, 15_000),
}
CONSUMERS: dict[str, tuple[Consume, int]] = {
    "tidelog": (ours_consume, 1_000_000),
    "tidelog read_arrow": (ours_read_arrow, 2_000_000),
    "confluent-kafka consume(1000)": (confluent_consume, 750_000),
    "confluent-kafka poll": (confluent_poll, 250_000),
    "aiokafka": (aiokafka_consume, 75_000),
    "kafka-python": (kafka_python_consume, 25_000),
}


def measure(
    bootstrap: str, size: int, codec: str, options: argparse.Namespace
) -> dict[str, tuple[float, float]]:
    """Records a second of everybody, the best of all rounds, and the least processor time of a record in us."""
    _import_all()
    values = records(size)
    best: dict[str, tuple[float, float]] = {}

    def run(name: str, count: int, work: Callable[[], None]) -> None:
        began, burnt = time.perf_counter(), _processor_s()
        work()
        rate = count / (time.perf_counter() - began)
        cost = (_processor_s() - burnt) / count * 1e6
        before = best.get(name, (0.0, cost))
        best[name] = max(before[0], rate), min(before[1], cost)

    share = 200 / size if size > 200 else 1
    stock = f"stock-{size}-{codec}"
    chosen = [name for name in CONSUMERS if _chosen(name, options)]
    largest = int(max(CONSUMERS[name][1] for name in chosen) * options.seconds * share)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({stock: PARTITIONS})
        ours_produce(bootstrap, stock, codec, values, largest + len(values))
        for turn in range(options.rounds):
            for name, (produce, a_second) in PRODUCERS.items():
                if not _chosen(name, options):
                    continue
                topic = f"{name.replace(' ', '-')}-{size}-{codec}-{turn}"
                admin.create_topics({topic: PARTITIONS})
                count = max(1, int(a_second * options.seconds * share) // len(values)) * len(values)
                run(
                    f"produce {name}",
                    count,
                    lambda: produce(bootstrap, topic, codec, values, count),  # noqa: B023 - called at once
                )
                admin.delete_topics([topic])
            for name in chosen:
                consume, a_second = CONSUMERS[name]
                count = int(a_second * options.seconds * share)
                run(f"consume {name}", count, lambda: consume(bootstrap, stock, count))  # noqa: B023
        admin.delete_topics([stock])
    return best


def _import_all() -> None:
    """Everybody's libraries, before any clock runs: whoever is measured first would pay for his own."""
    for name in ("aiokafka", "confluent_kafka", "kafka", "pyarrow"):
        importlib.import_module(name)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _chosen(name: str, options: argparse.Namespace) -> bool:
    return not options.only or name.split()[0] in options.only.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of clients, with commas")
    parser.add_argument("--json")
    options = parser.parse_args()
    results: dict[str, dict[str, tuple[float, float]]] = {}
    with LocalBroker() as broker:
        for size in SIZES:
            for codec in CODECS:
                found = measure(broker.bootstrap, size, codec, options)
                results[f"{size} B, {codec}"] = found
                print(f"{size} B, {codec}")
                for name, (rate, cost) in found.items():
                    base = found.get(f"{name.split()[0]} tidelog", (rate, cost))
                    print(
                        f"  {name:38} {rate:11,.0f} records/s {cost:7.2f} us each   "
                        f"tidelog is {base[0] / rate:5.2f} x, by processor time {cost / base[1]:5.2f} x",
                        flush=True,
                    )
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=2)


if __name__ == "__main__":
    sys.exit(main())
