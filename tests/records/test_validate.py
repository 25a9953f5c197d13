import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from tidelog.kernel import check_batch
from tidelog.records import Codec, build_batch, parse_header, read_records
from tidelog.records.builder import assemble
from tidelog.records.validate import RefusedRecords, RefusedTimestamps, Rules, validate_produced
from tidelog.storage.config import LogConfig

NOW = 1_700_000_000_000
HOUR = 3_600_000
ROWS = [(NOW, b"k", b"v" * 100, ()), (NOW - 5, b"l", b"w" * 100, (("h", None),))]
PLAIN = LogConfig()


def validate(batch, config=PLAIN, *, api_version=9, limit_bytes=1 << 20):
    rules = Rules.of(config, limit_bytes=limit_bytes)
    return validate_produced(batch, 0, len(batch), api_version=api_version, rules=rules, now_ms=NOW)


def changed(**changes) -> bytearray:
    """A batch that is good but for these fields, with a CRC that fits them."""
    batch = build_batch(ROWS)
    return assemble(parse_header(batch)._replace(**changes), batch[61:])


@pytest.mark.parametrize("codec", list(Codec))
def test_an_ordinary_batch_stays_where_it_is(codec):
    batch = build_batch(ROWS, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    before = bytes(batch)
    header, made = validate(batch)
    assert made is None
    assert header == parse_header(before)
    assert batch == before


def test_an_ordinary_topic_is_not_decompressed():
    batch = build_batch(ROWS, codec=Codec.ZSTD)
    garbage = assemble(parse_header(batch), b"this is not zstd")
    assert Rules.of(PLAIN).ordinary
    assert validate(garbage)[1] is None


def test_it_works_in_the_middle_of_a_frame():
    batch = build_batch(ROWS)
    frame = memoryview(bytearray(b"head" + batch + b"tail"))
    header, made = validate_produced(
        frame, 4, 4 + len(batch), api_version=9, rules=Rules.of(PLAIN), now_ms=NOW
    )
    assert (header, made) == (parse_header(batch), None)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        (b"", InvalidRecord, "no batch"),
        (bytes(20), CorruptMessage, "61 bytes"),
        (build_batch(ROWS) + build_batch(ROWS), InvalidRecord, "exactly one"),
        (build_batch(ROWS) + b"\0", InvalidRecord, "exactly one"),
        (build_batch(ROWS)[:-1], CorruptMessage, "length"),
        (build_batch(ROWS)[:-1] + b"!", CorruptMessage, "CRC"),
        (changed(count=1), InvalidRecord, "1 records"),
        (changed(last_offset_delta=5), InvalidRecord, "2 records"),
        (changed(count=0, last_offset_delta=0), InvalidRecord, "0 records"),
        (changed(attributes=0x20), InvalidRecord, "control"),
        (changed(attributes=0x40), InvalidRecord, "horizon"),
        (changed(attributes=0x08), InvalidTimestamp, "LogAppendTime"),
        (changed(producer_id=3, base_sequence=-1), InvalidRecord, "sequence"),
        (changed(attributes=5), UnsupportedCompressionType, "number 5"),
    ],
)
def test_what_is_refused(batch, error, text):
    with pytest.raises(error, match=text):
        validate(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_with_a_clear_text(magic):
    batch = build_batch(ROWS)
    batch[16] = magic
    with pytest.raises(InvalidRecord, match=f"message format {magic}"):
        validate(batch)


def test_zstd_needs_version_7():
    batch = build_batch(ROWS, codec=Codec.ZSTD)
    validate(batch, api_version=7)
    with pytest.raises(UnsupportedCompressionType, match="Produce 7"):
        validate(batch, api_version=6)


def test_the_largest_batch():
    batch = build_batch(ROWS)
    validate(batch, LogConfig(max_message_bytes=len(batch)))
    with pytest.raises(MessageTooLarge, match=str(len(batch))):
        validate(batch, LogConfig(max_message_bytes=len(batch) - 1))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_needs_keys(codec):
    config = LogConfig(cleanup_policy=("compact", "delete"))
    validate(build_batch(ROWS, codec=codec), config)
    keyless = [ROWS[0], (NOW, None, b"x", ()), ROWS[1], (NOW, None, None, ())]
    with pytest.raises(RefusedRecords) as caught:
        validate(build_batch(keyless, codec=codec), config)
    assert caught.value.code == InvalidRecord.code
    assert [index for index, _ in caught.value.record_errors] == [1, 3]
    assert "key" in caught.value.record_errors[0][1]
    validate(build_batch(keyless, codec=codec))


def test_times_in_the_future():
    rows = [(NOW, b"k", None, ()), (NOW + HOUR + 1, b"k", None, ())]
    with pytest.raises(RefusedTimestamps) as caught:
        validate(build_batch(rows, codec=Codec.GZIP))
    assert caught.value.code == InvalidTimestamp.code
    assert [index for index, _ in caught.value.record_errors] == [1]
    validate(build_batch([(NOW + HOUR, b"k", None, ())]))
    validate(build_batch(rows), LogConfig(message_timestamp_after_max_ms=2 * HOUR))


def test_times_in_the_past():
    rows = [(NOW - HOUR - 1, b"k", None, ()), (NOW, b"k", None, ()), (-1, b"k", None, ())]
    config = LogConfig(message_timestamp_before_max_ms=HOUR)
    with pytest.raises(RefusedTimestamps) as caught:
        validate(build_batch(rows), config)
    assert [index for index, _ in caught.value.record_errors] == [0]
    validate(build_batch(rows))
    validate(build_batch(rows), replace(config, message_timestamp_type="LogAppendTime"))


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_is_written_in_place(codec):
    batch = build_batch([(5, b"k", b"v", ()), (NOW * 2, None, b"w", ())], codec=codec)
    header, made = validate(batch, LogConfig(message_timestamp_type="LogAppendTime"))
    assert made is None
    assert header == check_batch(batch, 0, len(batch))
    assert header.is_log_append_time
    assert header.max_timestamp == NOW
    assert {record.timestamp for record in read_records(batch)} == {NOW}


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_the_topic_decides_the_codec(sent, stored, kind):
    batch = build_batch(ROWS, codec=sent, producer_id=4, producer_epoch=1, base_sequence=9)
    before = read_records(batch)
    target = Codec.NONE if stored == "uncompressed" else Codec[stored.upper()]
    header, made = validate(batch, LogConfig(compression_type=stored, message_timestamp_type=kind))
    assert (made is None) == (sent == target)
    result = batch if made is None else made
    assert header == check_batch(result, 0, len(result))
    assert header.codec is target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    after = read_records(result)
    assert [record[2:] for record in after] == [record[2:] for record in before]
    assert header.is_log_append_time == (kind == "LogAppendTime")


def test_a_batch_that_grows_too_large_is_refused():
    batch = build_batch([(NOW, b"k", b"v" * 10_000, ())], codec=Codec.GZIP)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=5000)
    with pytest.raises(MessageTooLarge, match="stored as none"):
        validate(batch, config)


def test_a_bomb_is_refused_where_it_must_be_unfolded():
    bomb = build_batch([(NOW, b"k", bytes(5_000_000), ())], codec=Codec.ZSTD)
    assert len(bomb) < 2000
    with pytest.raises(InvalidRecord, match="more than"):
        validate(bomb, LogConfig(cleanup_policy=("compact",)), limit_bytes=100_000)
    validate(bomb, limit_bytes=100_000)


@given(
    codec=st.sampled_from(Codec),
    policy=st.sampled_from([("delete",), ("compact",)]),
    stored=st.sampled_from(["producer", "uncompressed", "zstd"]),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
    sealed=st.booleans(),
)
def test_damage_gives_kafka_errors_only(codec, policy, stored, changes, sealed):
    batch = build_batch(ROWS, codec=codec)
    for place, byte in changes:
        batch[place % len(batch)] = byte
    if sealed:  # the CRC fits, so that the damage gets further in
        try:
            batch = assemble(parse_header(batch), batch[61:])
        except CorruptMessage:
            return
    try:
        header, made = validate(
            batch, LogConfig(cleanup_policy=policy, compression_type=stored), limit_bytes=50_000
        )
    except (
        CorruptMessage,
        InvalidRecord,
        InvalidTimestamp,
        MessageTooLarge,
        UnsupportedCompressionType,
    ):
        return
    result = batch if made is None else made
    assert header == check_batch(result, 0, len(result))


def test_a_compacted_topic_takes_only_what_its_cleaner_can_read():
    batch = build_batch(ROWS)
    broken = bytearray(batch)
    broken[-1] = 0x20  # the last record claims headers that are not there
    with pytest.raises(InvalidRecord):
        validate(
            assemble(parse_header(broken), broken[61:]), LogConfig(cleanup_policy=("compact",))
        )
    gap = build_batch(ROWS, offset_deltas=[0, 7])
    gap = assemble(parse_header(gap)._replace(last_offset_delta=1), gap[61:])
    with pytest.raises(InvalidRecord, match="offset delta 7"):
        validate(gap, LogConfig(cleanup_policy=("compact",)))


def test_very_many_bad_records_are_not_all_named():
    batch = build_batch([(NOW - HOUR, None, b"", ())] * 5000)
    with pytest.raises(RefusedRecords, match="5000 of 5000") as refused:
        validate(batch, LogConfig(cleanup_policy=("compact",)))
    assert len(refused.value.record_errors) == 1000
    with pytest.raises(RefusedTimestamps, match="5000 of 5000") as late:
        validate(batch, LogConfig(message_timestamp_before_max_ms=1000))
    assert len(late.value.record_errors) == 1000


def test_what_a_batch_may_unfold_to_follows_from_the_largest_batch():
    assert Rules.of(LogConfig(max_message_bytes=1 << 20)).limit_bytes == 16 << 20
    assert Rules.of(LogConfig(max_message_bytes=20 << 20)).limit_bytes == 64 << 20
    assert Rules.of(LogConfig(max_message_bytes=100 << 20)).limit_bytes == 100 << 20


def test_what_is_wrong_with_very_many_records_is_counted_and_not_made():
    """725 bytes cost half a second, 400 KB in a batch 170 MB: every record became an object, or an error a message."""
    for codec in (Codec.NONE, Codec.ZSTD):
        count = 300_000
        batch = build_batch([(NOW + 2 * HOUR, None, None, ())] * count, codec=codec)
        for config, kind in (
            (LogConfig(cleanup_policy=("compact",), max_message_bytes=64 << 20), RefusedRecords),
            (LogConfig(max_message_bytes=64 << 20), RefusedTimestamps),
        ):
            tracemalloc.start()
            with pytest.raises(kind, match=f"{count} of {count}") as refused:
                validate(batch, config, limit_bytes=64 << 20)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert len(refused.value.record_errors) == 1000
            assert peak < 20 << 20


def test_a_record_of_very_many_headers_is_checked_without_making_them():
    batch = build_batch([(NOW, b"k", None, [("", b"")] * 500_000)], codec=Codec.ZSTD)
    tracemalloc.start()
    validate(batch, LogConfig(cleanup_policy=("compact",)), limit_bytes=16 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
