"""A cluster of three brokers on this machine: how long it is without a leader, and what ten thousand partitions cost.

    .venv/bin/python benchmarks/cluster.py [--rounds 20] [--partitions 10000] [--metastore zk://…]

fail-over          from kill -9 of a leader to the next acknowledged acks=all write, by our producer as it comes
controlled stop    SIGTERM of a broker that leads a third of the partitions, until its process is gone
controller         kill -9 of the controller, until every partition has a leader again
topics, metadata   creation with three replicas until every broker serves it; a full Metadata answer
"""

import argparse
import asyncio
import contextlib
import statistics
import time
from collections.abc import Awaitable, Callable

from tidelog.aio import Admin, Producer
from tidelog.client.connection import Connection
from tidelog.errors import KafkaError
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.testing.local_broker import LocalBroker
from tidelog.testing.local_cluster import LocalCluster

PATIENCE_S = 300.0
TOPIC_PARTITIONS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="kills of a leader")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--metastore", help="instead of SQLite; must be empty")
    arguments = parser.parse_args()
    settings = {"auto.leader.rebalance.enable": "false"}
    if arguments.rounds:
        with LocalCluster(3, settings=settings, metastore=arguments.metastore) as cluster:
            asyncio.run(fail_over(cluster, arguments.rounds))
    if arguments.partitions:
        with LocalCluster(3, settings=settings, metastore=arguments.metastore) as cluster:
            asyncio.run(scale(cluster, arguments.partitions))


async def fail_over(cluster: LocalCluster, rounds: int) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics({"bench": 1}, replication_factor=3)
        took = [await _one_fail_over(cluster, admin) for _ in range(rounds)]
    took.sort()
    print(
        f"fail-over       {rounds} kills of a leader: p50 {statistics.median(took):6.0f} ms   "
        f"p99 {took[min(len(took) - 1, int(len(took) * 0.99))]:6.0f} ms   worst {took[-1]:6.0f} ms",
        flush=True,
    )


async def _one_fail_over(cluster: LocalCluster, admin: Admin) -> float:
    """Milliseconds from the kill to the next write that three (now two) replicas have."""
    await _until(lambda: _in_sync(admin, 3))
    (state,) = (await admin.describe_topics(["bench"]))["bench"].partitions
    async with Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for _ in range(20):
            await (await producer.send("bench", b"before"))
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        await loop.run_in_executor(None, cluster.brokers[state.leader].kill)
        await (await producer.send("bench", b"after"))
        took = time.perf_counter() - started
    await loop.run_in_executor(None, cluster.brokers[state.leader].start)
    return took * 1000


async def _in_sync(admin: Admin, count: int) -> bool:
    with contextlib.suppress(KafkaError):
        (state,) = (await admin.describe_topics(["bench"]))["bench"].partitions
        return len(state.isr) == count
    return False


async def scale(cluster: LocalCluster, partitions: int) -> None:
    loop = asyncio.get_running_loop()
    async with Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=200_000) as admin:
        started = time.perf_counter()
        slowest = 0.0
        topics = [f"many-{number}" for number in range(partitions // TOPIC_PARTITIONS)]
        for name in topics:
            began = time.perf_counter()
            await admin.create_topics({name: TOPIC_PARTITIONS}, replication_factor=3)
            slowest = max(slowest, time.perf_counter() - began)
        for broker in cluster.brokers:
            await _until(lambda broker=broker: _all_led(broker, partitions))
        took = time.perf_counter() - started
        print(
            f"topics          {partitions} partitions x 3 in {took:.1f} s "
            f"({TOPIC_PARTITIONS} in {slowest:.2f} s at most)",
            flush=True,
        )
        await _until(lambda: _all_led(cluster.brokers[0], partitions, in_sync=3))
        loads = [await _metadata_ms(broker) for broker in cluster.brokers for _ in range(3)]
        print(
            f"metadata        all of it in {min(loads):.0f} ms (worst {max(loads):.0f})", flush=True
        )

        controller = (await admin.describe_cluster()).controller
    others = [each for number, each in enumerate(cluster.brokers) if number != controller]
    started = time.perf_counter()
    await loop.run_in_executor(None, cluster.brokers[controller].kill)
    await _until(lambda: _all_led(others[0], partitions, without=controller))
    first = time.perf_counter() - started
    await _until(lambda: _all_led(others[1], partitions, without=controller))
    print(
        f"controller      killed; all partitions led again after {first:.2f} s, "
        f"known everywhere after {time.perf_counter() - started:.2f} s",
        flush=True,
    )
    started = time.perf_counter()
    await loop.run_in_executor(None, cluster.brokers[controller].start)
    await _until(lambda: _all_led(others[0], partitions, in_sync=3))
    print(
        f"restart         in sync everywhere after {time.perf_counter() - started:.1f} s",
        flush=True,
    )

    leaving = others[0]
    leads = await _led_by(leaving, cluster.brokers.index(leaving))
    started = time.perf_counter()
    await loop.run_in_executor(None, leaving.stop)
    took = time.perf_counter() - started
    await _until(lambda: _all_led(others[1], partitions, without=cluster.brokers.index(leaving)))
    print(f"controlled stop of a broker that leads {leads}: {took:.2f} s", flush=True)


async def _metadata(broker: LocalBroker) -> MetadataResponse:
    connection = await Connection.open(broker.host, broker.port, client_id="b", timeout_s=30)
    try:
        answer = await connection.ask(MetadataRequest(topics=None), timeout_s=60)
    finally:
        connection.close()
    assert isinstance(answer, MetadataResponse)
    return answer


async def _metadata_ms(broker: LocalBroker) -> float:
    started = time.perf_counter()
    await _metadata(broker)
    return (time.perf_counter() - started) * 1000


async def _all_led(
    broker: LocalBroker, partitions: int, *, without: int = -1, in_sync: int = 0
) -> bool:
    try:
        topics = (await _metadata(broker)).topics
    except KafkaError:
        return False
    states = [each for topic in topics for each in topic.partitions if topic.name[:4] == "many"]
    return len(states) == partitions and all(
        each.leader_id not in (-1, without) and len(each.isr_nodes) >= in_sync for each in states
    )


async def _led_by(broker: LocalBroker, number: int) -> int:
    topics = (await _metadata(broker)).topics
    return sum(each.leader_id == number for topic in topics for each in topic.partitions)


async def _until(hope: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await hope():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    main()
