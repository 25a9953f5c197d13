"""The kernel's hand-laid decoders see what the generated codec sees, and refuse what it refuses."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.errors import ProtocolError
from tidelog.kernel import decode_fetch, decode_produce
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.produce import ProduceRequest


@pytest.mark.parametrize("version", range(9, 13))
def test_produce(version: int, random_message: Callable[..., Any]) -> None:
    for number in range(40):
        request = random_message(ProduceRequest, version, number)
        frame = b"head" + bytes(encode(request, version))
        seen = decode_produce(frame, 4, version)
        assert seen[:3] == (request.transactional_id, request.acks, request.timeout_ms)
        assert [topic for topic, _ in seen[3]] == [topic.name for topic in request.topic_data]
        for topic, (_, partitions) in zip(request.topic_data, seen[3], strict=True):
            found = [(i, None if a < 0 else frame[a:b]) for i, a, b in partitions]
            assert found == [(data.index, data.records) for data in topic.partition_data]


@pytest.mark.parametrize("version", range(12, 18))
def test_fetch(version: int, random_message: Callable[..., Any]) -> None:
    for number in range(40):
        request = random_message(FetchRequest, version, number)
        seen = decode_fetch(bytes(encode(request, version)), 0, version)
        state = request.replica_state
        assert seen == (
            state.replica_id if version >= 15 else request.replica_id,
            state.replica_epoch,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
            [
                (
                    topic.topic if version == 12 else topic.topic_id.bytes,
                    [
                        (
                            data.partition,
                            data.current_leader_epoch,
                            data.fetch_offset,
                            data.last_fetched_epoch,
                            data.log_start_offset,
                            data.partition_max_bytes,
                            data.replica_directory_id.bytes,
                        )
                        for data in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
            [
                (topic.topic if version == 12 else topic.topic_id.bytes, topic.partitions)
                for topic in request.forgotten_topics_data
            ],
            request.rack_id,
            request.cluster_id,
        )


@pytest.mark.parametrize(
    ("cls", "fast", "version"),
    [
        (ProduceRequest, decode_produce, 11),
        (FetchRequest, decode_fetch, 12),
        (FetchRequest, decode_fetch, 17),
    ],
)
def test_both_refuse_the_same(
    cls: Any, fast: Callable[..., Any], version: int, random_message: Callable[..., Any]
) -> None:
    rng = random.Random(version)
    for number in range(60):
        good = encode(random_message(cls, version, number), version)
        for _ in range(10):
            raw = bytearray(good)
            raw[rng.randrange(len(raw))] = rng.choice((0, 1, 127, 128, 255))
            assert _refuses(fast, raw, 0, version) == _refuses(decode, cls, raw, 0, version), (
                number,
                bytes(raw),
            )


def _refuses(read: Callable[..., Any], *args: Any) -> bool:
    try:
        read(*args)
    except ProtocolError:
        return True
    return False
