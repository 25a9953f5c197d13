"""Is a client's batch acceptable?  The leader's checks before it appends.

An ordinary topic (the producer's times and compression, no compaction) costs one kernel call and a few
comparisons, and its records are neither decompressed nor looked into: the batch's own maximum timestamp is
believed.  Topics that are compacted, that bound times in the past, or that store another codec pay for it here.

Kafka's counterparts are `ProduceRequest.validateRecords` and `LogValidator`.
"""

from collections.abc import Sequence
from typing import Protocol

from tidelog.dataclass import dataclass
from tidelog.errors import (
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from tidelog.kernel import check_batch, refused_times, without_key
from tidelog.kernel.primitives import Buffer
from tidelog.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    BatchHeader,
    records_of,
)
from tidelog.records.builder import assemble, write_header
from tidelog.records.compression import Codec, compress, unfolded_limit

RecordErrors = list[tuple[int, str]]
"""Index of a record in its batch, and what is wrong with it (KIP-467)."""

_FOREVER = (1 << 63) - 1
_RECORDS_NAMED = 1_000
"""So many bad records of a batch are named in the answer; the rest are as bad, and the batch is refused as a whole."""
_ZSTD = int(Codec.ZSTD)  # a member of an enum takes a look-up in Python each time
_ZSTD_SINCE = 7
_NOT_FROM_CLIENTS = CONTROL | LOG_APPEND_TIME | DELETE_HORIZON
_CODECS = {"uncompressed": Codec.NONE} | {codec.name.lower(): codec for codec in list(Codec)[1:]}


class RefusedRecords(InvalidRecord):
    """Some records of the batch are not acceptable; `record_errors` names them."""

    def __init__(self, message: str, record_errors: RecordErrors) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class RefusedTimestamps(InvalidTimestamp):
    """Some records of the batch have times outside the bounds; `record_errors` names them."""

    def __init__(self, message: str, record_errors: RecordErrors) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class TopicConfig(Protocol):
    """The settings of a topic that say what it accepts; `storage.LogConfig` has them."""

    @property
    def max_message_bytes(self) -> int: ...
    @property
    def cleanup_policy(self) -> Sequence[str]: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...
    @property
    def compression_type(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What a topic accepts, made once for each change of its settings."""

    max_message_bytes: int
    before_max_ms: int
    after_max_ms: int
    compacted: bool
    log_append_time: bool
    codec: Codec | None
    """What batches are stored in; None keeps the producer's."""
    limit_bytes: int
    """What a batch may unfold to where it must be decompressed."""
    ordinary: bool
    """Whether the records themselves need not be looked at."""

    @classmethod
    def of(cls, config: TopicConfig, *, limit_bytes: int | None = None) -> "Rules":
        """The rules that a topic's settings make; `limit_bytes` follows from them unless it is given."""
        compacted = "compact" in config.cleanup_policy
        log_append_time = config.message_timestamp_type == "LogAppendTime"
        before_max_ms = config.message_timestamp_before_max_ms
        codec = _CODECS.get(config.compression_type)
        bounded = before_max_ms != _FOREVER and not log_append_time
        return cls(
            max_message_bytes=config.max_message_bytes,
            before_max_ms=before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            compacted=compacted,
            log_append_time=log_append_time,
            codec=codec,
            limit_bytes=limit_bytes or unfolded_limit(config.max_message_bytes),
            ordinary=not (compacted or log_append_time or bounded) and codec is None,
        )


def validate_produced(
    buf: Buffer, pos: int, end: int, *, api_version: int, rules: Rules, now_ms: int
) -> tuple[BatchHeader, bytearray | None]:
    """The header of the one batch from `pos` to `end`, and the batch itself if it had to be made anew.

    `None` means that the batch is good where it lies.  Under LogAppendTime its header is rewritten there, so `buf`
    must be writable.  Raises the error that the client is to be told.
    """
    if end - pos > rules.max_message_bytes:
        raise MessageTooLarge(
            f"the batch has {end - pos} bytes; max.message.bytes is {rules.max_message_bytes}"
        )
    if pos == end:
        raise InvalidRecord("there is no batch")
    fields = check_batch(buf, pos, end)
    header: BatchHeader = tuple.__new__(BatchHeader, fields)
    # Unpacked once: the attributes of a named tuple cost more than all the comparisons.
    _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, _, sequence, count = (
        fields
    )
    codec = attributes & CODEC_MASK
    if (
        length + 12 != end - pos
        or count == 0
        or count != delta + 1
        or attributes & _NOT_FROM_CLIENTS
        or (producer_id >= 0 and sequence < 0)
        or (codec >= _ZSTD and (codec > _ZSTD or api_version < _ZSTD_SINCE))
    ):
        raise _refusal(header, end - pos, api_version)
    if rules.ordinary and max_timestamp - now_ms <= rules.after_max_ms:
        return header, None
    return _look_inside(buf, pos, header, rules, now_ms)


def _refusal(header: BatchHeader, size: int, api_version: int) -> KafkaError:
    """What is wrong with a batch that failed the quick checks."""
    if header.size != size:
        return InvalidRecord(
            f"a Produce request holds exactly one batch for a partition; {size - header.size} bytes follow it"
        )
    if header.count != header.last_offset_delta + 1 or header.count == 0:
        return InvalidRecord(
            f"the batch claims {header.count} records, but its last offset delta is {header.last_offset_delta}"
        )
    if header.is_control:
        return InvalidRecord("clients may not write control batches")
    if header.is_log_append_time:
        return InvalidTimestamp("a producer may not set the timestamp type LogAppendTime")
    if header.has_delete_horizon:
        return InvalidRecord("clients may not set the delete horizon of a batch")
    if header.has_producer and header.base_sequence < 0:
        return InvalidRecord(
            f"the batch of producer {header.producer_id} has the sequence number {header.base_sequence}"
        )
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        return UnsupportedCompressionType(
            f"there is no compression with the number {header.attributes & CODEC_MASK}"
        )
    return UnsupportedCompressionType(
        f"zstd needs Produce {_ZSTD_SINCE} or later; the request has version {api_version}"
    )


def _look_inside(
    buf: Buffer, pos: int, header: BatchHeader, rules: Rules, now_ms: int
) -> tuple[BatchHeader, bytearray | None]:
    """The checks and changes that ordinary topics do not need."""
    target = header.codec if rules.codec is None else rules.codec
    recompress = target is not header.codec
    check_times = not rules.log_append_time and (
        rules.before_max_ms != _FOREVER or header.max_timestamp - now_ms > rules.after_max_ms
    )
    if recompress or check_times or rules.compacted:
        place = records_of(buf, pos, header, limit_bytes=rules.limit_bytes)
        if rules.compacted:
            _check_keys(place, header)
        # Without bounds too the records must be well-formed: the cleaner must be able to read what is stored.
        _check_times(place, header, rules, now_ms if check_times else None)
    changed = header
    if rules.log_append_time:
        changed = changed._replace(
            attributes=changed.attributes | LOG_APPEND_TIME, max_timestamp=now_ms
        )
    if recompress:
        changed = changed._replace(attributes=changed.attributes & ~CODEC_MASK | target)
        batch = assemble(changed, compress(target, memoryview(place[0])[place[1] : place[2]]))
        if len(batch) > rules.max_message_bytes:
            raise MessageTooLarge(
                f"stored as {target.name.lower()} the batch has {len(batch)} bytes; "
                f"max.message.bytes is {rules.max_message_bytes}"
            )
        return tuple.__new__(BatchHeader, check_batch(batch, 0, len(batch))), batch
    if changed is not header:
        with memoryview(buf) as view:
            changed = write_header(view, pos, changed)
    return changed, None


def _check_keys(place: tuple[Buffer, int, int, int, int, int], header: BatchHeader) -> None:
    total, first = without_key(*place[:4], _RECORDS_NAMED)
    if total:
        raise RefusedRecords(
            f"{total} of {header.count} records have no key, which a compacted topic needs",
            [(index, "a compacted topic cannot take a record without a key") for index in first],
        )


def _check_times(
    place: tuple[Buffer, int, int, int, int, int],
    header: BatchHeader,
    rules: Rules,
    now_ms: int | None,
) -> None:
    """Look at every record, and at its time unless `now_ms` is None."""
    oldest, newest = -_FOREVER, _FOREVER
    if now_ms is not None:
        oldest = max(now_ms - rules.before_max_ms, -_FOREVER)
        newest = min(now_ms + rules.after_max_ms, _FOREVER)
    total, first = refused_times(*place[:4], header.base_timestamp, oldest, newest, _RECORDS_NAMED)
    if total:
        raise RefusedTimestamps(
            f"{total} of {header.count} records have times outside of "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
            [
                (index, f"timestamp {timestamp} is outside of {oldest} to {newest}")
                for index, _, timestamp in first
            ],
        )
