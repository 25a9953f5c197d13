"""The clients of a run: tidelog's own, unmodified, that note in the history what they did and saw."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from tidelog import aio
from tidelog.client.cluster import Cluster
from tidelog.client.decoding import Chunk, decode_chunk
from tidelog.client.fetching import fetch_request, fetched
from tidelog.client.message import Message
from tidelog.errors import KafkaError, OffsetOutOfRange, error_of
from tidelog.kernel import scan_batches
from tidelog.names import TopicPartition
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.protocol.schema import Request, Response
from tidelog.records.batch import iterate_batches

from .cluster import SimClock, SimCluster
from .history import Batch, Commit, Committed, History, Place, Polled, Told
from .loop import Process

CLIENT = {
    "request.timeout.ms": 1_500,
    "default.api.timeout.ms": 10_000,
    "socket.connection.setup.timeout.ms": 1_000,
    "metadata.max.age.ms": 3_000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 400,
}
GROUP = "g"
LATE_GROUP = "l"
"""Begins where the partitions end."""


class Workload:
    """Starts clients, and starts another where one was killed."""

    def __init__(self, cluster: SimCluster, history: History, *, unclean: bool = False) -> None:
        self.cluster = cluster
        self.history = history
        self.unclean = unclean
        """Elections may lose what was acknowledged."""
        self.producing = True
        self.consuming = True
        self.processes: dict[str, Process] = {}
        """By role: the client that has it at present."""
        self._lives: dict[str, int] = {}
        self._work: dict[str, Any] = {}
        self._chance = cluster.loop.chance_for("workload")
        self.clock = SimClock(cluster.loop)

    def start(self, role: str, work: Any) -> None:
        """Run `work(name)` as the client of this role; its name says which life it is."""
        self._work[role] = work
        self._lives[role] = self._lives.get(role, 0) + 1
        name = f"{role}.{self._lives[role]}"
        self.processes[role] = self.cluster.client(name, work(name))

    def replace(self, role: str) -> None:
        """Kill the client of this role, and start another."""
        self.kill(role)
        self.start(role, self._work[role])

    def ended(self, name: str) -> None:
        """The client of this name has done its work."""
        self.processes.pop(name.split(".")[0], None)

    def start_again_later(self, name: str) -> None:
        """The client of this name ends; its supervisor starts another."""
        context = self.cluster.network.context
        self.cluster.loop.call_later(0.2, self._start_again, name, context=context)

    def _start_again(self, name: str) -> None:
        role = name.split(".")[0]
        process = self.processes.get(role)
        if process is not None and process.name == name:
            self.replace(role)

    def kill(self, role: str) -> None:
        process = self.processes.pop(role)
        self.cluster.story.tell(process.name, "is killed")
        self.cluster.loop.kill(process)
        self.cluster.network.process_died(process)

    def config(self, name: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.cluster.bootstrap,
            "client.id": name,
            **CLIENT,
            **more,
        }

    def _tell(self, who: str, what: str) -> None:
        self.cluster.story.tell(who, what, detail=True)

    # ------------------------------------------------------------------ roles

    async def create_topics(
        self, topics: dict[str, int], factor: int, configs: dict[str, str]
    ) -> None:
        async with aio.Admin(self.config("creator")) as admin:
            await admin.create_topics(topics, replication_factor=factor, configs=configs)

    async def produce(self, name: str, topic: str, *, weakly: bool = False) -> None:
        """Send bursts until told to stop, and note what is acknowledged; `weakly` by the leader alone."""
        config = self.config(name, **{"delivery.timeout.ms": 15_000, "linger.ms": 3})
        if weakly:
            config |= {"acks": "1", "enable.idempotence": False}
        producer = aio.Producer(config, clock=self.clock)
        waiting: set[asyncio.Task[None]] = set()
        number = 0
        while self.producing:
            for _ in range(self._chance.choice((1, 1, 2, 5))):
                value = f"{name}-{number}"
                number += 1
                self.history.sent[value] = None
                try:
                    delivery = await producer.send(topic, value.encode(), key=str(number).encode())
                except KafkaError as error:
                    self.history.failed[value] = str(error)
                    self._tell(name, f"cannot send {value}: {error}")
                    continue
                task = asyncio.ensure_future(self._note(name, value, delivery, weakly=weakly))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            await asyncio.sleep(self._chance.choice((0.01, 0.05, 0.1, 0.3)))
        await asyncio.gather(*waiting)
        await producer.close()
        self.ended(name)

    async def _note(self, name: str, value: str, delivery: Any, *, weakly: bool) -> None:
        try:
            where = await delivery
        except KafkaError as error:
            self.history.failed[value] = f"{type(error).__name__}: {error}"
            self._tell(name, f"{value} failed: {error}")
        else:
            tp = TopicPartition(where.topic, where.partition)
            if weakly:
                self.history.weakly[value] = Place(tp, where.offset)
            else:
                self.history.acknowledged[value] = Place(tp, where.offset)
                self.history.acknowledged_at[value] = self._now()
            self._tell(name, f"{value} is at {tp.topic}-{tp.partition}@{where.offset}")

    async def consume(
        self, name: str, topic: str, *, group: str = GROUP, reset: str = "earliest"
    ) -> None:
        """Read as a member of the group."""
        polls = self.history.polls.setdefault(name, [])
        config = self.config(
            name,
            **{
                "group.id": group,
                "auto.offset.reset": reset,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "auto.commit.interval.ms": 700,
                "max.poll.interval.ms": 20_000,
            },
        )
        consumer = aio.Consumer(config)

        def assigned(partitions: Any) -> None:
            self._tell(name, f"is assigned {sorted(each.partition for each in partitions)}")
            polls.extend(Polled(self._now(), tp, -1, None) for tp in sorted(partitions))

        await consumer.subscribe(topic, on_assigned=assigned)
        while self.consuming:
            try:
                messages = await consumer.poll(timeout=0.5)
            except KafkaError as error:
                self._tell(name, f"poll failed: {error}")
                if not error.retriable:  # a program ends here, and its supervisor starts another
                    self.start_again_later(name)
                    return
                continue
            self.note_polled(name, polls, messages)
            await asyncio.sleep(self._chance.choice((0, 0, 0.02, 0.2)))
        await consumer.close()
        self.ended(name)

    def note_polled(self, name: str, polls: list[Polled], messages: list[Message]) -> None:
        for each in messages:
            polls.append(
                Polled(self._now(), each.topic_partition, each.offset, each.value.decode())
            )
        if messages:
            first, last = messages[0], messages[-1]
            self._tell(
                name,
                f"polls {len(messages)}: {first.topic}-{first.partition}@{first.offset}"
                f" … {last.topic}-{last.partition}@{last.offset}",
            )

    async def watch_ends(self, name: str, topic: str) -> None:
        """Ask again and again where the partitions end, and read each from the start as far as it goes."""
        ends = self.history.ends.setdefault(name, [])
        polls = self.history.polls.setdefault(f"{name} (reader)", [])
        batches = self.history.batches.setdefault(name, [])
        reader = aio.SimpleConsumer(self.config(name, **{"fetch.max.wait.ms": 100}))
        positions: dict[TopicPartition, int] = {}
        while self.consuming:
            for partition in await self._partitions(reader, topic):
                tp = TopicPartition(topic, partition)
                try:
                    asked = self._now()
                    end = (await reader.offsets_before(topic, partition, -1))[0]
                    ends.append(Told(self._now(), tp, end, asked))
                    at = positions.get(tp, 0)
                    chunk = await reader.fetch_chunk(topic, partition, at, 4_096)
                except OffsetOutOfRange as error:
                    if not self.unclean:
                        self.cluster.story.violation(f"end went back: {name} at {tp}: {error}")
                    positions.pop(tp, None)
                    continue
                except KafkaError as error:
                    self._tell(name, f"cannot read {tp}: {error}")
                    continue
                messages = decode_chunk(chunk)
                self.note_polled(f"{name}", polls, messages)
                for _, header in iterate_batches(chunk.records):
                    batches.append(Batch(tp, header.base_offset, header.leader_epoch))
                if messages:
                    positions[tp] = messages[-1].offset + 1
            await asyncio.sleep(0.1 + 0.2 * self._chance.random())
        await reader.close()
        self.ended(name)

    async def read_near(self, name: str, topic: str) -> None:
        """Read every partition from its start at the replica that its leader names for our rack (KIP-392)."""
        polls = self.history.polls.setdefault(f"{name} (near)", [])
        reader = aio.SimpleConsumer(self.config(name, **{"fetch.max.wait.ms": 100}))
        rack = f"r{self._chance.randrange(3)}"
        positions: dict[TopicPartition, int] = {}
        near: dict[TopicPartition, int] = {}
        while self.consuming:
            for partition in await self._partitions(reader, topic):
                tp = TopicPartition(topic, partition)
                at = positions.setdefault(tp, 0)
                try:
                    data = await self._fetch_near(reader, tp, at, rack, near.get(tp))
                except KafkaError as error:
                    self._tell(name, f"cannot read {tp}: {error}")
                    near.pop(tp, None)
                    continue
                if data.error_code:
                    # It may be a follower that has not come so far yet; the leader knows better.
                    near.pop(tp, None)
                    await self._refresh(reader, topic)
                    continue
                if data.preferred_read_replica >= 0:
                    near[tp] = data.preferred_read_replica
                    continue
                chunk = Chunk(tp, at, memoryview(data.records or b""), None, data.high_watermark)
                messages = decode_chunk(chunk)
                self.note_polled(name, polls, messages)
                if messages:
                    positions[tp] = messages[-1].offset + 1
            await asyncio.sleep(0.1 + 0.2 * self._chance.random())
        await reader.close()
        self.ended(name)

    async def _fetch_near(
        self, reader: aio.SimpleConsumer, tp: TopicPartition, at: int, rack: str, near: int | None
    ) -> PartitionData:
        cluster = reader._cluster
        leader = await cluster.leader(*tp)
        request, at_most = fetch_request(cluster, reader.settings, {tp: at}, 4_096, 4_096)
        request.rack_id = rack
        node = leader.node if near is None or near not in cluster.nodes else near
        answer = cast(FetchResponse, await cluster.ask(node, request, at_most=at_most))
        if answer.error_code:
            raise error_of(answer.error_code)
        for found, data in fetched(cluster, answer):
            if found == tp:
                return data
        raise error_of(-1, f"the answer does not speak of {tp}")

    async def _refresh(self, reader: aio.SimpleConsumer, topic: str) -> None:
        with contextlib.suppress(KafkaError):
            await reader._cluster.refresh([topic])

    async def watch_groups(self, name: str, topic: str) -> None:
        """Ask again and again how far the groups are."""
        readers = {
            group: aio.Consumer(self.config(name, **{"group.id": group}))
            for group in self.history.groups
        }
        finder = aio.SimpleConsumer(self.config(name))
        while self.consuming:
            parts = [TopicPartition(topic, each) for each in await self._partitions(finder, topic)]
            for group, reader in readers.items():
                asked = self._now()
                try:
                    found = await reader.committed(*parts)
                except KafkaError as error:
                    self._tell(name, f"cannot ask how far {group} is: {error}")
                    continue
                for tp in parts:
                    place = found.get(tp)
                    offset = -1 if place is None else place.offset
                    self.history.committed.append(Committed(group, tp, offset, asked, self._now()))
            await asyncio.sleep(0.2 + 0.4 * self._chance.random())
        for each in (*readers.values(), finder):
            await each.close()
        self.ended(name)

    async def _partitions(self, reader: aio.SimpleConsumer, topic: str) -> list[int]:
        try:
            info = await reader._cluster.topic(topic)
        except KafkaError:
            return []
        return sorted(info.partitions)

    async def read_all(self, name: str, topic: str) -> None:
        """Read every partition from its first offset to its end; the last word on what was written."""
        final: dict[TopicPartition, list[tuple[int, str]]] = {}
        async with aio.Admin(self.config(name)) as admin:
            marks = await admin.watermarks(topic)
        async with aio.SimpleConsumer(self.config(name, **{"fetch.max.wait.ms": 50})) as reader:
            for tp, (first, end) in sorted(marks.items()):
                rows = final.setdefault(tp, [])
                at = first
                while at < end:
                    messages, at = await read_on(reader, tp, at)
                    rows += [(each.offset, each.value.decode()) for each in messages]
        self.history.final.update(final)

    def _now(self) -> float:
        return self.cluster.loop.time()


@contextlib.contextmanager
def noting_commits(history: History, now: Callable[[], float]) -> Iterator[None]:
    """Note every request to commit, from before it is sent: whoever sends it may be killed."""
    plain = Cluster.ask

    async def noting(self: Cluster, node: int, request: Request, **more: Any) -> Response:
        if not isinstance(request, OffsetCommitRequest):
            return await plain(self, node, request, **more)
        began, never = now(), float("inf")
        places: dict[TopicPartition, int] = {}
        for topic in request.topics:
            for part in topic.partitions:
                tp = TopicPartition(topic.name, part.partition_index)
                places[tp] = len(history.commits)
                commit = Commit(request.group_id, tp, part.committed_offset, began, never)
                history.commits.append(commit)
        answer = cast(OffsetCommitResponse, await plain(self, node, request, **more))
        for found in answer.topics:
            for each in found.partitions:
                place = places.get(TopicPartition(found.name, each.partition_index))
                if place is not None and not each.error_code:
                    history.commits[place] = history.commits[place]._replace(ended=now())
        return answer

    Cluster.ask = noting  # type: ignore[method-assign]
    try:
        yield
    finally:
        Cluster.ask = plain  # type: ignore[method-assign]


async def read_on(
    reader: aio.SimpleConsumer, tp: TopicPartition, at: int
) -> tuple[list[Message], int]:
    """The next messages, and the offset after what was read: there may be only aborted records and markers."""
    chunk = await reader.fetch_chunk(tp.topic, tp.partition, at, 65_536)
    batches, _, _ = scan_batches(chunk.records, 0, len(chunk.records))
    return decode_chunk(chunk), max(at, batches[-1][3] + 1) if batches else at
