"""What holds of every message in every version: it survives the wire, and garbage gives ProtocolError alone."""

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.errors import ProtocolError
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages import MODULES, all_messages, request_for
from tidelog.protocol.schema import Message, Request, Response

MESSAGES = sorted(all_messages(), key=lambda cls: cls.__name__)
every_message = pytest.mark.parametrize("cls", MESSAGES, ids=[cls.__name__ for cls in MESSAGES])

# Two uvarints that no frame can honour, and the largest int32: what a forger writes for a length.
FORGED = (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x7f\xff")


def versions(cls: type[Message]) -> range:
    return range(cls.versions.first, cls.versions.last + 1)


@every_message
def test_survives_the_wire(cls: type[Message], random_message: Callable[..., Any]) -> None:
    for version in versions(cls):
        for message in (cls(), *(random_message(cls, version, n) for n in range(5))):
            raw = encode(message, version)
            for frame in (bytes(raw), raw, memoryview(raw)):
                assert decode(cls, frame, 0, version) == (message, len(raw))
            assert decode(cls, b"head" + raw + b"tail", 4, version) == (message, len(raw) + 4)


@every_message
def test_every_cut_is_a_protocol_error(
    cls: type[Message], random_message: Callable[..., Any]
) -> None:
    for version in versions(cls):
        raw = bytes(encode(random_message(cls, version, 1), version))
        cuts = (
            range(len(raw)) if len(raw) < 60 else random.Random(version).sample(range(len(raw)), 60)
        )
        for cut in cuts:
            with pytest.raises(ProtocolError):
                decode(cls, memoryview(raw)[:cut], 0, version)


@every_message
def test_garbage_is_read_or_refused(cls: type[Message], random_message: Callable[..., Any]) -> None:
    rng = random.Random(cls.__name__)
    for version in versions(cls):
        good = bytes(encode(random_message(cls, version, 2), version))
        frames = [rng.randbytes(rng.randrange(80)) for _ in range(15)]
        frames += [_mutated(rng, good) for _ in range(25)]
        for frame in frames:
            try:
                _, stop = decode(cls, frame, 0, version)
            except ProtocolError:
                continue
            assert stop <= len(frame)


@every_message
def test_forged_lengths_allocate_nothing(cls: type[Message]) -> None:
    for version in versions(cls):
        good = bytes(encode(cls(), version))
        decode(cls, good, 0, version)
        tracemalloc.start()
        try:
            for at in range(len(good) + 1):
                for forged in FORGED:
                    try:
                        decode(cls, good[:at] + forged + good[at + len(forged) :], 0, version)
                    except ProtocolError:
                        continue
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 200_000, version


def test_the_map_of_modules_is_what_the_modules_say() -> None:
    derived = {
        cls.api_key: cls.__module__.rpartition(".")[2]
        for cls in MESSAGES
        if issubclass(cls, Request)
    }
    assert dict(MODULES) == dict(sorted(derived.items()))


def test_requests_and_responses_are_pairs() -> None:
    for cls in MESSAGES:
        if issubclass(cls, Request):
            assert request_for(cls.api_key) is cls
            assert cls.response.__name__ == cls.__name__.removesuffix("Request") + "Response"
            assert cls.response.versions == cls.versions
        if issubclass(cls, Response):
            assert request_for(cls.api_key).response is cls


def test_an_unknown_api_has_no_request() -> None:
    assert request_for(4) is None
    assert request_for(-1) is None
    assert request_for(32767) is None


def _mutated(rng: random.Random, good: bytes) -> bytes:
    raw = bytearray(good or b"\0")
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(raw))
        if rng.random() < 0.3:
            raw[at : at + 4] = rng.choice(FORGED)
        else:
            raw[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(raw)
