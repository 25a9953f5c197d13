"""A broker of partitions alone: dispatcher, logs and waiting readers, without sockets and metastore."""

import asyncio
import math
import struct
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tidelog.broker.context import Services
from tidelog.broker.dispatch import Dispatcher, Handlers
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.handlers.api_versions import api_versions
from tidelog.broker.handlers.fetch import fetch
from tidelog.broker.handlers.list_offsets import list_offsets
from tidelog.broker.handlers.produce import produce
from tidelog.cluster.image import Image
from tidelog.cluster.lease import Lease
from tidelog.cluster.partition import Partition
from tidelog.cluster.partitions import Partitions
from tidelog.cluster.throttle import Throttle
from tidelog.cluster.waiting import Waiting
from tidelog.errors import BrokerNotAvailable
from tidelog.names import TopicPartition
from tidelog.network.answer import Deferred
from tidelog.network.peer import Address, Peer
from tidelog.protocol.codec import decode
from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock

TOPIC_ID = UUID("5f4dcc3b-5aa7-4f6c-9d2b-1a2b3c4d5e6f")
PEER = Peer(Address("192.0.2.1", 5000), Address("127.0.0.1", 9092), "PLAINTEXT")


class Timers:
    """A scheduler whose time is a ManualClock's."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._later: list[tuple[float, Any]] = []

    def call_soon(self, callback):
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay, callback):
        entry = SimpleNamespace(at=self._clock.monotonic() + delay, callback=callback)
        entry.cancel = lambda: self._later.remove(entry) if entry in self._later else None
        self._later.append(entry)
        return entry

    async def advance(self, ms: float) -> None:
        self._clock.advance(ms)
        for entry in [each for each in self._later if each.at <= self._clock.monotonic()]:
            self._later.remove(entry)
            entry.callback()
        await asyncio.sleep(0)

    @property
    def armed(self) -> int:
        return len(self._later)


class AnyTransaction:
    """A transaction coordinator that finds every transactional batch right."""

    def __init__(self) -> None:
        self.turns: dict[str, asyncio.Future[None]] = {}

    def enter(self, *_: Any, joins: bool) -> None:
        pass

    def check(self, *_: Any) -> None:
        pass

    async def find_coordinator(self, transactional_id: str) -> int:
        return 1


class NoPeers:
    """A broker that is alone."""

    async def ask(self, broker_id: int, request: Any, **_: Any) -> Any:
        raise BrokerNotAvailable(f"broker {broker_id} is not known")


def endless_lease(clock: ManualClock) -> Lease:
    lease = Lease(1, Image, clock, lambda: 1_000)
    lease.until = math.inf
    return lease


class HotPath:
    """Two partitions of `events`, served through a dispatcher."""

    def __init__(self, directory, partitions: int = 2, **config: Any) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.directory = directory
        self.flusher = Flusher()
        handlers = {each.api_key: each for each in (api_versions, fetch, list_offsets, produce)}
        unused: Any = None
        self.services = Services(
            broker_id=1,
            cluster_id="test",
            settings=SimpleNamespace(broker=SimpleNamespace(fetch_max_bytes=50_000_000)),
            clock=self.clock,
            image=lambda: Image(),
            partitions=Partitions(),
            logs=unused,
            controller=unused,
            groups=unused,
            transactions=AnyTransaction(),
            producer_ids=unused,
            waiting=Waiting(self.clock, self.timers),
            fetch_sessions=FetchSessions(3, self.clock),
            leader_throttle=Throttle(self.clock, lambda: 1_000),
            lease=endless_lease(self.clock),
            handlers=Handlers(handlers),
        )
        self.dispatcher = Dispatcher(self.services)
        for index in range(partitions):
            self.add("events", index, TOPIC_ID, **config)

    def add(
        self, topic: str, index: int, topic_id: UUID, epoch: int = 3, **config: Any
    ) -> Partition:
        log = Log.open(
            str(self.directory / f"{topic}-{index}"),
            files=LocalFiles(),
            config=LogConfig(**config),
            clock=self.clock,
            topic_partition=TopicPartition(topic, index),
        )
        partition = Partition(topic, index, topic_id, log, epoch, flusher=self.flusher)
        self.services.partitions.add(partition)
        return partition

    def partition(self, index: int = 0, topic: str = "events") -> Partition:
        return self.services.partitions.get(topic, index)

    def serve(self, request, version: int, correlation_id: int = 7):
        """What the dispatcher returns."""
        frame = encode_request(request, version, correlation_id, "tester")
        return self.dispatcher.serve(PEER, memoryview(frame)[4:])

    async def ask(self, request, version: int):
        """The decoded response."""
        return self.decoded(type(request), version, await settled(self.serve(request, version)))

    @staticmethod
    def decoded(request, version: int, answer):
        data = joined(answer)
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4
        correlation_id, response = decode_response(request.response, data[4:], version)
        assert correlation_id == 7
        return response


async def settled(answer):
    if isinstance(answer, Deferred):
        future = asyncio.get_running_loop().create_future()
        answer.then(future.set_result)
        answer = await asyncio.wait_for(future, 5)
        if isinstance(answer, Exception):
            raise answer
    elif asyncio.iscoroutine(answer):
        answer = await answer
    return answer


def joined(answer) -> bytes:
    if isinstance(answer, bytes | bytearray):
        return bytes(answer)
    return b"".join(
        piece
        if isinstance(piece, bytes | bytearray)
        else piece.file.pread(piece.length, piece.position)
        for piece in answer
    )


def batch(*values: bytes, now_ms: int = 1_700_000_000_000, key: bytes | None = b"k", **rest):
    return build_batch([(now_ms, key, value, ()) for value in values or (b"v",)], **rest)


def produce_request(
    *batches,
    acks: int = -1,
    topic: str = "events",
    index: int = 0,
    timeout_ms=1000,
    transactional_id=None,
):
    """To one partition, or with several batches to the partitions from `index` on."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index + at, records=each)
                    for at, each in enumerate(batches)
                ],
            )
        ],
    )


def fetch_request(*offsets: int, version: int = 12, topic: str = "events", **rest):
    """From the first partitions of a topic, at these offsets."""
    limits = {name: rest.pop(name) for name in ("partition_max_bytes",) if name in rest}
    epoch = rest.pop("current_leader_epoch", -1)
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": topic}
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=limits.get("partition_max_bytes", 1 << 20),
            current_leader_epoch=epoch,
        )
        for index, offset in enumerate(offsets)
        if offset is not None
    ]
    topics = [FetchTopic(partitions=partitions, **named)] if partitions else []
    return FetchRequest(**{"max_bytes": 1 << 24, "min_bytes": 1, "topics": topics, **rest})


__all__ = [
    "PEER",
    "TOPIC_ID",
    "HotPath",
    "batch",
    "decode",
    "fetch_request",
    "joined",
    "produce_request",
    "settled",
]
