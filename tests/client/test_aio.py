"""The clients on the caller's own loop."""

from collections.abc import Callable

from tidelog.aio import Admin, Consumer, Producer, SimpleConsumer


async def test_produce_and_consume(bootstrap: str, unique: Callable[[str], str]) -> None:
    topic = unique("aio")
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics({topic: 2})
    async with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        delivery = await producer.send(topic, b"first", partition=0)
        assert (await delivery).offset == 0
        await producer.send_many(topic, [b"%d" % number for number in range(100)], partition=1)
        await producer.flush()
    events = []

    async def assigned(partitions: object) -> None:
        events.append(partitions)

    async with Consumer(
        bootstrap_servers=bootstrap, group_id=unique("group"), auto_offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe(topic, on_assigned=assigned)
        found = []
        async for message in consumer:
            found.append(message)
            if len(found) == 101:
                break
        assert len(events) == 1
        assert [each.value for each in found if each.partition == 1] == [
            b"%d" % n for n in range(100)
        ]
        assert await consumer.poll(timeout=0.01) == []
    async with SimpleConsumer(bootstrap_servers=bootstrap) as simple:
        assert [each.value for each in await simple.fetch(topic, 0, 0)] == [b"first"]


async def test_memory_is_waited_for(bootstrap: str, unique: Callable[[str], str]) -> None:
    topic = unique("aio")
    async with Producer(
        bootstrap_servers=bootstrap, buffer_memory=20_000, max_request_size=5_000
    ) as producer:
        deliveries = [await producer.send(topic, b"x" * 1000) for _ in range(100)]
        await producer.flush()
        assert all(each.done() for each in deliveries)
