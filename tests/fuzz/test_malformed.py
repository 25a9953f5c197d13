"""Hostile input, case by case: Kafka's error code, or a closed connection; never silence, never much memory."""

import gzip
import struct
from collections.abc import Iterator

import pytest
from wire import Closed, Wire, framed, memory_bytes

from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

NOW = 1_700_000_000_000
ROWS = [(NOW, b"k", b"v", [("h", b"x")])]

CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TOPIC, INVALID_ACKS, UNSUPPORTED_VERSION = (
    2,
    10,
    17,
    21,
    35,
)
UNSUPPORTED_CODEC, INVALID_RECORD = 76, 87


@pytest.fixture(autouse=True)
def still_serves(broker: LocalBroker) -> Iterator[None]:
    """After every case a new client is served."""
    yield
    with Wire(broker.port) as wire:
        assert wire.is_alive()


@pytest.fixture
def wire(broker: LocalBroker) -> Iterator[Wire]:
    with Wire(broker.port) as wire:
        yield wire


def create(wire: Wire, name: str, **configs: str) -> int:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    return wire.call(request, 5, CreateTopicsResponse).topics[0].error_code


def produce(
    wire: Wire, topic: str, batch: bytes | bytearray, *, version: int = 9, acks: int = -1
) -> int:
    partition = PartitionProduceData(index=0, records=batch)
    data = TopicProduceData(name=topic, partition_data=[partition])
    request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
    answer = wire.call(request, version, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def put(batch: bytearray, place: int, layout: str, value: int) -> bytearray:
    """The batch with one header field overwritten; the CRC is not made right again."""
    struct.pack_into(layout, batch, place, value)
    return batch


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 101 * 1024 * 1024, 0, 1, 7])
def test_a_length_that_cannot_be(wire: Wire, length: int) -> None:
    wire.send(struct.pack(">i", length) + b"\0" * max(0, min(length, 100)))
    if 0 < length < 8:
        wire.send(b"")
    assert wire.is_closed()


@pytest.mark.parametrize(
    "text",
    [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
)
def test_other_protocols(wire: Wire, text: bytes) -> None:
    wire.send(text)
    wire.finish_sending()
    assert wire.is_closed()


def test_half_a_frame(wire: Wire) -> None:
    wire.send(struct.pack(">i", 1000) + b"abc")
    wire.finish_sending()
    assert wire.is_closed()


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (-1, 0), (4, 0), (3, 99), (0, 2), (1, 3), (70, 0)]
)
def test_an_unknown_api_or_version(wire: Wire, key: int, version: int) -> None:
    wire.send(framed(struct.pack(">hhih", key, version, 1, -1) + b"\0" * 20))
    assert wire.is_closed()


def test_an_unknown_version_of_api_versions(wire: Wire) -> None:
    wire.send(framed(struct.pack(">hhihB", 18, 99, 42, -1, 0) + b"\xff" * 20))
    answer = wire.receive()
    correlation_id, error, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, error) == (42, UNSUPPORTED_VERSION)
    ranges = [struct.unpack_from(">hhh", answer, 10 + 6 * n) for n in range(count)]
    assert len(answer) == 10 + 6 * count
    assert (18, 0, 4) in ranges
    assert wire.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0, "it stays open"


def test_text_that_is_not_utf8(wire: Wire) -> None:
    frame = bytearray(
        encode_request(MetadataRequest(topics=[MetadataRequestTopic(name="ABCD")]), 4, 1, "x")
    )
    wire.send(frame.replace(b"ABCD", b"\xff\xfe\xc0\x80"))
    assert wire.is_closed()


def test_a_client_id_that_is_not_utf8(wire: Wire) -> None:
    wire.send(
        encode_request(ApiVersionsRequest(), 0, 1, "ABCD").replace(b"ABCD", b"\xff\xfe\xc0\x80")
    )
    assert wire.is_closed()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 300, "größe", "a b", "a\0b", "../../etc"])
def test_an_illegal_topic_name(wire: Wire, name: str) -> None:
    assert create(wire, name) == INVALID_TOPIC
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
    )
    assert wire.call(request, 8, MetadataResponse).topics[0].error_code == INVALID_TOPIC


def spoilt_batches() -> Iterator[tuple[str, bytearray, set[int]]]:
    bad = {CORRUPT_MESSAGE, INVALID_RECORD}
    yield "wrong crc", put(build_batch(ROWS), 17, ">I", 12345), {CORRUPT_MESSAGE}
    yield "changed value", build_batch(ROWS)[:-1] + b"!", {CORRUPT_MESSAGE}
    for magic in (0, 1, 3, -1):
        yield f"magic {magic}", put(build_batch(ROWS), 16, ">b", magic), bad
    for length in (0, -1, 2**31 - 1, 1000, 48):
        yield f"length {length}", put(build_batch(ROWS), 8, ">i", length), bad
    yield "cut", build_batch(ROWS)[:-3], bad
    yield "header only", build_batch(ROWS)[:61], bad
    yield "almost a header", build_batch(ROWS)[:20], bad
    yield "two batches", build_batch(ROWS) + build_batch(ROWS), {INVALID_RECORD}
    yield "control", build_batch(ROWS, control=True), {INVALID_RECORD}
    yield "last offset", build_batch(ROWS, last_offset_delta=5), {INVALID_RECORD}
    yield "no record", build_batch([], last_offset_delta=0), {INVALID_RECORD}
    yield "too large", build_batch([(NOW, b"k", b"v" * 1_100_000, [])]), {MESSAGE_TOO_LARGE}


@pytest.mark.parametrize(
    ("batch", "expected"), [pytest.param(b, e, id=name) for name, b, e in spoilt_batches()]
)
def test_a_spoilt_batch(wire: Wire, batch: bytearray, expected: set[int]) -> None:
    create(wire, "spoilt")
    assert produce(wire, "spoilt", batch) in expected
    assert produce(wire, "spoilt", build_batch(ROWS)) == 0, "the next one is served"


def test_acks_that_do_not_exist(wire: Wire) -> None:
    create(wire, "spoilt")
    assert produce(wire, "spoilt", build_batch(ROWS), acks=5) == INVALID_ACKS


def test_zstd_from_a_client_too_old_for_it(wire: Wire) -> None:
    create(wire, "spoilt")
    assert (
        produce(wire, "spoilt", build_batch(ROWS, codec=Codec.ZSTD), version=5) == UNSUPPORTED_CODEC
    )


def test_an_error_without_acknowledgement_closes(wire: Wire) -> None:
    create(wire, "spoilt")
    batch = put(build_batch(ROWS), 17, ">I", 12345)
    data = TopicProduceData(
        name="spoilt", partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    wire.send(encode_request(ProduceRequest(acks=0, topic_data=[data]), 9, 1, "x"))
    assert wire.is_closed()


def bomb() -> bytearray:
    """One record of 512 MB that travels as 0.5 MB."""
    size = 512 * 1024 * 1024
    zeros = bytearray(build_batch([(NOW, b"k", b"", [])])[61:])
    inflated = gzip.compress(bytes(zeros) + b"\0" * size, compresslevel=9)
    plain = build_batch(ROWS, codec=Codec.GZIP)
    from tidelog.kernel import crc32c

    batch = plain[:61] + inflated
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def test_a_decompression_bomb(broker: LocalBroker, wire: Wire) -> None:
    """Where the broker must look inside (keys of a compacted topic, look-up by time) it stops in time."""
    create(wire, "compacted", cleanup_policy="compact")
    create(wire, "plain")
    batch = bomb()
    before = memory_bytes(broker.pid)
    assert produce(wire, "compacted", batch) in {CORRUPT_MESSAGE, INVALID_RECORD}
    assert produce(wire, "plain", batch) in {0, CORRUPT_MESSAGE, INVALID_RECORD}
    partition = ListOffsetsPartition(partition_index=0, timestamp=NOW)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="plain", partitions=[partition])])
    wire.call(request, 5, ListOffsetsResponse)
    # One batch unfolds to 64 MiB at most (records/compression.py); the request itself comes on top.
    assert memory_bytes(broker.pid) - before < 128 * 1024 * 1024


def test_many_large_requests_that_never_end(broker: LocalBroker) -> None:
    """Promised bytes cost nothing before they come, and those that came are bounded."""
    before = memory_bytes(broker.pid)
    wires = [Wire(broker.port) for _ in range(20)]
    try:
        for wire in wires:
            try:
                wire.send(struct.pack(">i", 99 * 1024 * 1024) + b"\0" * 65536)
            except Closed:
                continue
        with Wire(broker.port) as other:
            assert other.is_alive()
        assert memory_bytes(broker.pid) - before < 200 * 1024 * 1024
    finally:
        for wire in wires:
            wire.__exit__(None, None, None)
