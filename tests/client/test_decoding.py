"""From bytes to messages: heads cut off, aborted transactions hidden, damage told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.assignment import Assignment
from tidelog.client.decoding import Chunk, Deserializer, decode_chunk
from tidelog.client.deserializing import Away, Decoder
from tidelog.client.message import BadMessage
from tidelog.client.reader import Reader
from tidelog.errors import CorruptMessage
from tidelog.names import TopicPartition
from tidelog.records import Codec, build_batch
from tidelog.records.batch import iterate_batches
from tidelog.records.control import EndTransactionMarker

TP = TopicPartition("t", 0)


def batch(base: int, *values: bytes, producer: int = -1, **options: object) -> bytes:
    rows = [(1000 + place, None, value, ()) for place, value in enumerate(values)]
    more = (
        {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer >= 0 else {}
    )
    return bytes(
        build_batch(rows, base_offset=base, transactional=producer >= 0, **more, **options)
    )  # type: ignore[arg-type]


def marker(base: int, producer: int, commit: bool) -> bytes:
    made = EndTransactionMarker(commit=commit, coordinator_epoch=0)
    return bytes(
        made.build(producer_id=producer, producer_epoch=0, timestamp_ms=1, base_offset=base)
    )


def values(data: bytes, first: int = 0, aborted: object = None) -> list[bytes]:
    chunk = Chunk(TP, first, memoryview(data), aborted, -1)  # type: ignore[arg-type]
    return [message.value for message in decode_chunk(chunk)]


def test_the_head_before_the_offset_is_cut_off() -> None:
    data = batch(0, b"a", b"b", b"c") + batch(3, b"d", codec=Codec.LZ4)
    assert values(data, 1) == [b"b", b"c", b"d"]
    assert values(data, 3) == [b"d"]


def test_half_a_batch_at_the_end_is_left() -> None:
    data = batch(0, b"a") + batch(1, b"b")[:-3]
    assert values(data) == [b"a"]


def test_log_append_time_is_every_records_time() -> None:
    chunk = Chunk(TP, 0, memoryview(batch(0, b"a", b"b", log_append_time=77)), None, -1)
    assert [message.timestamp for message in decode_chunk(chunk)] == [77, 77]


def test_aborted_transactions_are_hidden_from_those_who_ask() -> None:
    data = (
        batch(0, b"a1", producer=1)
        + batch(1, b"b1", producer=2)
        + batch(2, b"plain")
        + marker(3, 1, commit=False)
        + batch(4, b"a2", producer=1)
        + marker(5, 1, commit=True)
        + marker(6, 2, commit=True)
    )
    assert values(data) == [b"a1", b"b1", b"plain", b"a2"]
    assert values(data, aborted=((1, 0),)) == [b"b1", b"plain", b"a2"]


def test_a_damaged_batch_names_its_place() -> None:
    data = bytearray(batch(5, b"abc"))
    data[-1] ^= 1
    with pytest.raises(CorruptMessage, match="offset 5 of t-0"):
        values(bytes(data), 5)


def reader_of(data: bytes, key: Deserializer | None, value: Deserializer | None) -> Reader:
    """Somebody who reads one partition in which this was fetched."""
    assignment = Assignment(lambda: None)
    assignment.replace([TP])
    assignment.seek(TP, offset=0)
    _, epoch = assignment.fetchable(1 << 20)[TP]
    end = sum(header.count for _, header in iterate_batches(data))
    assignment.put(Chunk(TP, 0, memoryview(data), None, end), epoch, end)
    decoder = Decoder(
        assignment, key, value, on_bad="raise", interceptors=(), counted=lambda *_: None
    )
    return Reader(assignment, decoder.decode)


def test_deserializers_see_what_is_there() -> None:
    reader = reader_of(batch(0, b"7"), bytes.decode, int)
    (message,) = reader.take(10)
    assert (message.key, message.value, message.payload) == (None, 7, 7)
    assert message.topic_partition == TP


@given(
    st.lists(st.sampled_from(("good", "bad", "away")), max_size=12),
    st.lists(st.integers(1, 4), min_size=1),
)
def test_whatever_cannot_be_read_costs_nothing_but_itself(
    kinds: list[str], wants: list[int]
) -> None:
    """Read in bites of any size: all that is good comes once and in order, all that is bad is told once."""
    missing = {place for place, kind in enumerate(kinds) if kind == "away"}

    def deserialize(data: bytes) -> int:
        place = int(data)
        if place in missing:
            missing.discard(place)
            raise ConnectionError("the registry is away")
        if kinds[place] == "bad":
            raise ValueError(place)
        return place

    data = batch(0, *(b"%d" % place for place in range(len(kinds)))) if kinds else b""
    reader = reader_of(data, None, deserialize)
    state = reader.assignment.states[TP]
    good: list[int] = []
    bad: list[int] = []
    for turn in range(4 * len(kinds) + 1):
        settled = state.settled
        assert settled <= state.position
        reader.settle()
        try:
            good += [each.value for each in reader.take(wants[turn % len(wants)])]
        except Away:
            assert state.position == state.settled
        except BadMessage as error:
            bad.append(error.offset)
            reader.pass_by(error, None)
            place = error.offset
            assert (state.settled, state.position) == (place, place + 1)
    assert good == [place for place, kind in enumerate(kinds) if kind != "bad"]
    assert bad == [place for place, kind in enumerate(kinds) if kind == "bad"]
    assert state.position == len(kinds)
