"""Telemetry of clients (KIP-714): who may send what and when, and what is read out of it."""

import contextlib
import struct
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.monitoring_config import MonitoringConfig
from tidelog.broker.otlp import Point, points
from tidelog.broker.telemetry import Telemetry
from tidelog.errors import (
    InvalidRequest,
    ProtocolError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from tidelog.records.compression import Codec, compress
from tidelog.testing.manual_clock import ManualClock

ID = UUID(int=7)


def field(number: int, value: bytes) -> bytes:
    assert len(value) < 1 << 14
    size = (
        bytes([len(value)])
        if len(value) < 128
        else bytes([len(value) & 127 | 128, len(value) >> 7])
    )
    return bytes([number << 3 | 2]) + size + value


def message(name: str, *numbers: bytes, kind: int = 5) -> bytes:
    data = b"".join(field(1, each) for each in numbers)
    metric = field(1, name.encode()) + field(3, b"ms") + field(kind, data)
    return field(1, field(1, b"") + field(2, field(1, b"") + field(2, metric)))


def attribute(key: str, value: str) -> bytes:
    return field(7, field(1, key.encode()) + field(2, field(1, value.encode())))


def double(value: float, *more: bytes) -> bytes:
    return b"\x19" + struct.pack("<q", 123) + b"\x21" + struct.pack("<d", value) + b"".join(more)


def integer(value: int) -> bytes:
    return b"\x31" + struct.pack("<q", value)


class Rig:
    def __init__(self, **settings) -> None:
        self.clock = ManualClock()
        self.config = replace(
            MonitoringConfig(), telemetry_metrics=("*",), telemetry_interval_ms=1000, **settings
        )
        self.telemetry = Telemetry(self.clock, lambda: self.config, lambda: UUID(int=99))
        self.telemetry.subscribe(ID, "billing", "librdkafka 2.6")

    async def push(self, data: bytes = b"", compression: int = 0, **more) -> None:
        given_id = more.pop("subscription_id", self.telemetry.subscription_id)
        ends = more.pop("terminating", False)
        instance = more.pop("instance", ID)
        await self.telemetry.push(instance, given_id, compression, data, terminating=ends, **more)


def test_gauges_and_sums_are_read():
    data = message("a.rate", double(2.5, attribute("node", "1")), double(3.5))
    data += message("b.total", integer(7), kind=7)
    assert points(data, 10) == [
        Point("a.rate", (("node", "1"),), 2.5),
        Point("a.rate", (), 3.5),
        Point("b.total", (), 7.0),
    ]
    assert len(points(data, 2)) == 2


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(data):
    with contextlib.suppress(ProtocolError):
        points(data, 100)


@given(st.data())
def test_a_cut_message_is_refused_or_read_in_part(data):
    whole = message("a.rate", double(2.5, attribute("node", "1")))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with contextlib.suppress(ProtocolError):
        assert len(points(whole[:cut], 10)) <= 1


@pytest.mark.parametrize("codec", list(Codec))
async def test_what_a_client_sends_is_kept(codec):
    rig = Rig()
    data = message("a.rate", double(2.5))
    await rig.push(compress(codec, data) if codec else data, codec)
    assert rig.telemetry.pushes == 1
    ((instance, client),) = rig.telemetry.fresh()
    assert instance == ID
    assert (client.client_id, client.software) == ("billing", "librdkafka 2.6")
    assert client.points == (Point("a.rate", (), 2.5),)
    rig.clock.advance(3001)
    assert rig.telemetry.fresh() == [], "a client that sends no more is forgotten"


async def test_before_its_time_a_client_is_told_to_wait():
    rig = Rig()
    await rig.push()
    rig.clock.advance(400)
    with pytest.raises(ThrottlingQuotaExceeded):
        await rig.push()
    await rig.push(terminating=True)  # the last message may come at any time
    with pytest.raises(InvalidRequest, match="ends"):
        await rig.push()
    assert (rig.telemetry.pushes, rig.telemetry.refused) == (2, 2)


async def test_what_is_wanted_has_changed():
    rig = Rig()
    old = rig.telemetry.subscription_id
    rig.config = replace(rig.config, telemetry_metrics=("org.apache.kafka.producer",))
    assert rig.telemetry.requested == ["org.apache.kafka.producer"]
    with pytest.raises(UnknownSubscriptionId):
        await rig.push(subscription_id=old)
    with pytest.raises(UnknownSubscriptionId):
        await rig.push(instance=UUID(int=8))


def test_all_is_told_as_one_empty_text_and_nothing_as_nothing():
    rig = Rig()
    assert rig.telemetry.requested == [""]
    rig.config = MonitoringConfig()
    assert rig.telemetry.requested == []


async def test_bounds():
    rig = Rig(telemetry_max_bytes=100)
    with pytest.raises(TelemetryTooLarge, match="101 bytes"):
        await rig.push(b"x" * 101)
    with pytest.raises(UnsupportedCompressionType):
        await rig.push(b"", 9)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await rig.push(b"\xff\xff")
    rig.clock.advance(1000)  # what cannot be read has cost something all the same
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await rig.push(compress(Codec.GZIP, bytes(100_000))[:100], Codec.GZIP)
    for number in range(2000):
        rig.telemetry.subscribe(UUID(int=1000 + number), "c", "s")
    assert len(rig.telemetry.clients) == 1000


async def test_nothing_is_taken_that_nobody_asked_for():
    rig = Rig()
    rig.config = MonitoringConfig()
    with pytest.raises(UnknownSubscriptionId):
        await rig.push(message("a.rate", double(2.5)))
    rig.telemetry.subscribe(UUID(int=8), "c", "s")
    assert UUID(int=8) not in rig.telemetry.clients


async def test_other_names_than_those_wanted_are_not_kept():
    rig = Rig()
    rig.config = replace(rig.config, telemetry_metrics=("a.",))
    await rig.push(message("a.rate", double(2.5)) + message("b.rate", double(3.5)))
    ((_, client),) = rig.telemetry.fresh()
    assert [each.name for each in client.points] == ["a.rate"]


async def test_a_small_message_of_very_many_fields_is_refused():
    """971 bytes of it took eight seconds."""
    inner = b"\x08\x00" * 250_000  # fields that mean nothing
    nested = b"\x0a" + bytes(
        [len(inner) & 127 | 128, len(inner) >> 7 & 127 | 128, len(inner) >> 14]
    )
    rig = Rig()
    small = bytes(compress(Codec.ZSTD, nested + inner))
    assert len(small) < 1000
    with pytest.raises(InvalidRequest, match="fields"):
        await rig.push(small, Codec.ZSTD)
    with pytest.raises(ThrottlingQuotaExceeded):
        await rig.push(small, Codec.ZSTD)


async def test_what_is_kept_of_a_client_is_bounded():
    """Forty messages of 363 bytes kept 456 MB."""
    rig = Rig()
    attributes = [attribute("k" * 8000, "v" * 7000)] * 20
    pieces = [points(message("n" * 16_000, double(1.0)), 1)[0]]
    assert len(pieces[0].name) == 256
    await rig.push(b"".join(message("n" * 300, double(1.0, each)) for each in attributes))
    ((_, client),) = rig.telemetry.fresh()
    kept = sum(len(each.name) + sum(map(len, each.attributes[0])) for each in client.points)
    assert kept <= 64 * 1024


async def test_one_user_cannot_push_the_clients_of_others_out():
    rig = Rig()
    rig.telemetry.subscribe(UUID(int=1), "c", "s", "User:bob")
    for number in range(2000):
        rig.telemetry.subscribe(UUID(int=1000 + number), "c", "s", "User:mallory")
    assert len(rig.telemetry.clients) == 1000
    assert {ID, UUID(int=1)} <= rig.telemetry.clients.keys()


async def test_a_user_who_takes_ever_new_ids_is_told_to_wait():
    rig = Rig()

    async def push_as(number: int) -> None:
        rig.telemetry.subscribe(UUID(int=number), "c", "s", "User:mallory")
        await rig.push(instance=UUID(int=number), principal="User:mallory")

    for number in range(1000, 2000):
        await push_as(number)
    with pytest.raises(ThrottlingQuotaExceeded):
        await push_as(2000)
    await rig.push()  # another user is listened to
    with pytest.raises(UnknownSubscriptionId):
        await rig.push(instance=ID, principal="User:mallory")
