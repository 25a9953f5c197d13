"""The schema registry and the serialisers, beside confluent-kafka's.

    .venv/bin/python benchmarks/registry.py [--seconds 2]

Look-ups are HTTP requests to a registry process on this machine, one after the other over one connection, and from
four processes at once; *cached* is what a second look-up of the same id costs.  Records are encoded and decoded in one
thread with a schema that is known already, as it is from the second message on, and counted by processor time, which a
busy machine disturbs less.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tidelog.schemas import AvroDeserializer, AvroSerializer, RegistryClient
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.testing.local_broker import LocalBroker

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
MESSAGE = {
    "id": 123456789,
    "customer": "Ada Lovelace",
    "amount": 12.5,
    "paid": True,
    "lines": ["tea", "cup", "saucer"],
    "note": "by hand",
}
SCHEMAS = 100
CLIENTS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    seconds = parser.parse_args().seconds
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with LocalBroker(settings=settings) as broker, LocalRegistry(broker.bootstrap) as registry:
        assert registry.process is not None
        look_ups(registry.url, registry.process.pid, seconds)
        records(registry.url, seconds)


def look_ups(url: str, pid: int, seconds: float) -> None:
    with RegistryClient(url) as client:
        start = time.perf_counter()
        for each in range(SCHEMAS):
            client.register(f"s{each}", json.dumps({**ORDER, "name": f"Order{each}"}))
        print(f"{'registrations':34}{SCHEMAS / (time.perf_counter() - start):12,.0f} /s")
        print(f"{'look-ups, one client':34}{uncached(url, seconds):12,.0f} /s")
        with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
            before = processor_seconds(pid)
            total = sum(pool.starmap(uncached, [(url, seconds)] * CLIENTS))
            cost_us = (processor_seconds(pid) - before) / (total * seconds) * 1e6
        print(
            f"{f'look-ups, {CLIENTS} clients':34}{total:12,.0f} /s,"
            f" {cost_us:.0f} µs of the registry's processor time each"
        )
        client.schema(1)
        print(f"{'look-ups, cached':34}{rate(lambda: client.schema(1), seconds):12,.0f} /s")


def uncached(url: str, seconds: float) -> float:
    """Look-ups a second that all go to the registry."""
    with RegistryClient(url) as client:
        numbers = iter(range(1 << 60))

        def ask() -> None:
            id = next(numbers) % SCHEMAS + 1
            client._schemas.pop(id, None)
            client.schema(id)

        return rate(ask, seconds, 20)


def records(url: str, seconds: float) -> None:
    context = SerializationContext("orders", MessageField.VALUE)
    with RegistryClient(url) as ours, SchemaRegistryClient({"url": url}) as theirs:
        serialize = AvroSerializer(ours, ORDER, topic="orders")
        unchecked = AvroSerializer(ours, ORDER, topic="orders", validate=False)
        deserialize = AvroDeserializer(ours)
        their_serialize = TheirSerializer(theirs, json.dumps(ORDER))
        their_deserialize = TheirDeserializer(theirs)
        data = serialize(MESSAGE)
        assert data == their_serialize(MESSAGE, context)
        assert data is not None
        assert deserialize(data) == their_deserialize(data, context) == MESSAGE
        rows: list[tuple[str, Callable[[], Any]]] = [
            ("encode, tidelog", lambda: serialize(MESSAGE)),
            ("encode, tidelog, validate=False", lambda: unchecked(MESSAGE)),
            ("encode, confluent-kafka", lambda: their_serialize(MESSAGE, context)),
            ("decode, tidelog", lambda: deserialize(data)),
            ("decode, confluent-kafka", lambda: their_deserialize(data, context)),
        ]
        print(f"\nrecords of {len(data)} bytes, in a second of processor time")
        best = dict.fromkeys((name for name, _ in rows), 0.0)
        for _ in range(3):  # in turn, so that a busy moment does not hit one of them alone
            for name, call in rows:
                best[name] = max(best[name], rate(call, seconds / 3, clock=time.process_time))
        for name, found in best.items():
            print(f"{name:34}{found:12,.0f} /s")


def processor_seconds(pid: int) -> float:
    """What the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(
    call: Callable[[], Any],
    seconds: float,
    batch: int = 1000,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Calls a second."""
    count = 0
    start = clock()
    while (passed := clock() - start) < seconds:
        for _ in range(batch):
            call()
        count += batch
    return count / passed


if __name__ == "__main__":
    main()
