"""A client of Kafka's protocol that asks one thing at a time: topics, a first message, whether a broker is there."""

import contextlib
import socket
import struct
import time
from collections.abc import Mapping

from tidelog.protocol.frame import decode_response, encode_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.protocol.schema import Request, Response
from tidelog.records.builder import build_batch

_PATIENCE_S = 60.0


class Wire:
    def __init__(self, port: int, timeout_s: float = _PATIENCE_S) -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout_s)

    def ask(self, request: Request, version: int) -> Response:
        self._sock.sendall(encode_request(request, version, 1, "bench"))
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(request.response, self._read(size), version)[1]

    def close(self) -> None:
        self._sock.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            got = self._sock.recv(size - len(data))
            if not got:
                raise ConnectionError("the broker closed the connection")
            data += got
        return data


def answers(port: int) -> bool:
    """Whether a broker on this port answers."""
    with contextlib.suppress(OSError):
        wire = Wire(port, 1.0)
        try:
            wire.ask(ApiVersionsRequest(), 0)
            return True
        finally:
            wire.close()
    return False


def create(
    port: int, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until all its partitions have a leader."""
    settings = [
        CreatableTopicConfig(name=name, value=value) for name, value in (config or {}).items()
    ]
    new = CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, configs=settings
    )
    wire = Wire(port)
    answer = wire.ask(CreateTopicsRequest(topics=[new], timeout_ms=60_000), 5)
    code = answer.topics[0].error_code
    if code:
        raise RuntimeError(f"topic {topic} was not created: error {code}")
    _wait_for(wire, topic, partitions, create=False)
    _wait_until_led(wire, topic, partitions)
    wire.close()


def first_message(port: int) -> None:
    """As a new client does it: the topic made by asking for it, then a message that is acknowledged."""
    wire = Wire(port)
    wire.ask(ApiVersionsRequest(), 0)
    _wait_for(wire, "first", 1, create=True)
    batch = build_batch([(int(time.time() * 1000), None, b"x", ())])
    data = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(name="first", partition_data=[data])]
    request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics)
    deadline = time.monotonic() + _PATIENCE_S
    while wire.ask(request, 7).responses[0].partition_responses[0].error_code:
        if time.monotonic() > deadline:
            raise RuntimeError("the first message was refused for too long")
    wire.close()


def _wait_for(wire: Wire, topic: str, partitions: int, *, create: bool) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create
    )
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        found = wire.ask(request, 5).topics[0]  # a version that everybody has right
        led = [each for each in found.partitions if each.leader_id >= 0 and not each.error_code]
        if not found.error_code and len(led) >= partitions:
            return
        time.sleep(0.001)
    raise RuntimeError(f"topic {topic} did not get its {partitions} partitions")


def _wait_until_led(wire: Wire, topic: str, partitions: int) -> None:
    """Metadata may know the leader before the leader does: ask it."""
    asked = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(partitions)]
    topics = [ListOffsetsTopic(name=topic, partitions=asked)]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    deadline = time.monotonic() + _PATIENCE_S
    while any(each.error_code for each in wire.ask(request, 5).topics[0].partitions):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the leader of {topic} did not take it")
        time.sleep(0.001)
