"""Random and mutated requests over every API and version: an answer or a closed connection, and life goes on.

TIDELOG_FUZZ_SECONDS makes it longer (`make fuzz`), TIDELOG_FUZZ_SEED repeats a run.
"""

import os
import random
import time

import pytest
from instances import random_instance, spoilt
from wire import Closed, Wire, framed, memory_bytes

from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode
from tidelog.protocol.frame import encode_request
from tidelog.protocol.headers import parse_response_header
from tidelog.protocol.messages import MODULES, request_for
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.schema import Request
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.faults

SECONDS = float(os.environ.get("TIDELOG_FUZZ_SECONDS", "15")) / 3
"""For each kind of broker."""
SEED = int(os.environ.get("TIDELOG_FUZZ_SEED", "1"))
MEMORY_BOUND = 400 * 1024 * 1024
FIXED_HEADER = (
    8  # API key, version, correlation id: what a mutation leaves alone, so that it reaches the API
)
# These may rightly keep a client waiting when a mutation has changed how long.
MAY_WAIT = {"fetch", "join_group", "sync_group", "produce", "consumer_group_heartbeat"}


def test_every_api_and_version_survives_random_requests(brokers: list[LocalBroker]) -> None:
    choose = random.Random(SEED)
    offered = prepare(brokers[0])
    cases = [
        (name, request, version)
        for key, name in MODULES.items()
        if (request := request_for(key)) is not None
        for version in range(request.versions.first, request.versions.last + 1)
    ]
    until = time.monotonic() + SECONDS
    rounds = 0
    while rounds == 0 or time.monotonic() < until:
        choose.shuffle(cases)
        for name, request, version in cases:
            broker = choose.choice(brokers)
            is_offered = version in offered.get(request.api_key, ())
            sound(broker, choose, request, version, is_offered=is_offered)
            if is_offered:
                unsound(broker, choose, name, request, version)
        rounds += 1
    print(f"{rounds} rounds over {len(cases)} APIs and versions")
    for broker in brokers:
        assert memory_bytes(broker.pid) < MEMORY_BOUND
        with Wire(broker.port) as wire:
            assert wire.is_alive()


def test_noise_instead_of_frames(broker: LocalBroker) -> None:
    choose = random.Random(SEED)
    for _ in range(200):
        with Wire(broker.port) as wire:
            try:
                wire.send(choose.randbytes(choose.choice((1, 3, 4, 20, 1000))))
                wire.finish_sending()
                while not wire.is_closed():
                    pass
            except Closed:
                pass
    with Wire(broker.port) as wire:
        assert wire.is_alive()


def prepare(broker: LocalBroker) -> dict[int, range]:
    """Make the topic that most requests name, and learn what the broker offers."""
    with Wire(broker.port) as wire:
        topic = CreatableTopic(name="fuzz", num_partitions=2, replication_factor=1)
        create = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        wire.call(create, 4, CreateTopicsResponse)
        answer = wire.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


def sound(
    broker: LocalBroker,
    choose: random.Random,
    request: type[Request],
    version: int,
    *,
    is_offered: bool,
) -> None:
    """A request of the right layout: its answer, if any, has the right layout too."""
    message = random_instance(choose, request, version)
    frame = encode_request(message, version, 5, choose.choice(("fuzz", "", None)))
    with Wire(broker.port) as wire:
        try:
            wire.send(frame)
            if not is_offered or request.__name__ in ("ProduceRequest", "JoinGroupRequest"):
                return  # no answer is right: refused, acks=0, or waiting for the other members
            answer = wire.receive()
        except Closed:
            return
        except TimeoutError:
            pytest.fail(f"stuck on {request.__name__} v{version}: {message}")
        correlation_id, pos = parse_response_header(answer, request.api_key, version)
        assert correlation_id == 5, (request, version)
        try:
            _, stop = decode(request.response, answer, pos, version)
        except ProtocolError as error:
            pytest.fail(f"{message} v{version} was answered by {answer.hex()}: {error}")
        assert stop == len(answer), (message, version, answer)


def unsound(
    broker: LocalBroker, choose: random.Random, name: str, request: type[Request], version: int
) -> None:
    """A request with spoilt bytes: anything but silence."""
    message = random_instance(choose, request, version)
    frame = encode_request(message, version, 5, "fuzz")[4:]
    body = frame[:FIXED_HEADER] + spoilt(choose, frame[FIXED_HEADER:])
    if asks_for_much(request, version, body):
        return
    with Wire(broker.port) as wire:
        try:
            wire.send(framed(body))
            if name not in MAY_WAIT:
                wire.is_alive()
        except Closed:
            pass
        except TimeoutError:
            pytest.fail(f"stuck on {request.__name__} v{version}: {body.hex()}")


def asks_for_much(request: type[Request], version: int, body: bytearray) -> bool:
    """Whether a mutation turned a request into an order for very many partitions."""
    if request not in (CreateTopicsRequest, CreatePartitionsRequest):
        return False
    for start in range(FIXED_HEADER, min(len(body), FIXED_HEADER + 12)):
        try:
            found, _ = decode(request, bytes(body), start, version)
        except (ProtocolError, MemoryError):
            continue
        counts = (
            getattr(each, "num_partitions", getattr(each, "count", 0)) for each in found.topics
        )
        if any(count > 100 for count in counts):
            return True
    return False
