"""A worker that copies `in` to `out` in transactions until it is killed; run by `test_exactly_once` as a child process.

Arguments: the client to use, the broker's address, the worker's transactional id.  It prints a line for each step, so that
whoever runs it sees that it lives, and where it stands when SIGUSR1 asks.
"""

import faulthandler
import signal
import sys

BATCH = 100
GROUP = "workers"
SESSION_MS = 1_500


def with_tidelog(bootstrap: str, name: str, protocol: str) -> None:
    from tidelog import Consumer, Producer
    from tidelog.errors import TransactionFailed

    hurry = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100, "bootstrap_servers": bootstrap}
    classic = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 5}
    with (
        Producer(transactional_id=name, linger_ms=1, **hurry) as producer,
        Consumer(
            topics="in",
            group_id=GROUP,
            group_protocol=protocol,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_interval_ms=10_000,
            **(classic if protocol == "classic" else {}),
            **hurry,
        ) as consumer,
    ):
        producer.init_transactions()
        while True:
            messages = consumer.poll(max_records=BATCH, timeout=0.2)
            if not messages:
                print("idle", flush=True)
                continue
            try:
                with producer.transaction():
                    for each in messages:
                        producer.send("out", each.value, partition=each.partition)
                    producer.send_offsets(consumer.positions(), consumer.group_metadata())
                print("copied", len(messages), flush=True)
            except TransactionFailed as error:
                print("aborted", error, flush=True)
                consumer.seek_to_committed()


def with_kafka_python(bootstrap: str, name: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    hurry = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, **hurry)
    consumer = KafkaConsumer(
        "in",
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 5,
        max_poll_interval_ms=10_000,
        **hurry,
    )
    producer.init_transactions()
    while True:
        found = consumer.poll(timeout_ms=200, max_records=BATCH)
        if not found:
            print("idle", flush=True)
            continue
        producer.begin_transaction()
        for messages in found.values():
            for each in messages:
                producer.send("out", each.value, partition=each.partition)
        offsets = {tp: OffsetAndMetadata(m[-1].offset + 1, "", -1) for tp, m in found.items()}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        print("copied", sum(map(len, found.values())), flush=True)


def main() -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    client, bootstrap, name = sys.argv[1:]
    try:
        if client == "kafka-python":
            with_kafka_python(bootstrap, name)
        else:
            with_tidelog(bootstrap, name, protocol=client.removeprefix("tidelog-"))
    except Exception as error:  # noqa: BLE001  (whatever it was: the next life begins with what is committed)
        print("dies", repr(error), flush=True)


if __name__ == "__main__":
    main()
