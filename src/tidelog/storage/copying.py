"""Appending what a leader sent: batches with the offsets and epochs that it gave them, small ones with one write.

A follower gets in one answer what many producers have written one by one.  Plain batches of the epoch that the log is in
are joined as far as the segment has room; whatever is out of the ordinary (a new epoch, a producer id, a segment to
begin) is appended alone.
"""

from struct import Struct
from typing import TYPE_CHECKING

from tidelog.errors import CorruptMessage
from tidelog.kernel import scan_batches
from tidelog.records.batch import parse_header
from tidelog.storage.appended import NO_TIMESTAMP, Appended
from tidelog.storage.files import Buffer

if TYPE_CHECKING:
    from tidelog.storage.log import Log

_EPOCH_AND_PRODUCER = Struct(">12xi27xq")

_Place = tuple[int, int, int, int, int]
"""Position, size, base offset, last offset, largest timestamp."""


def append(log: "Log", batches: Buffer) -> Appended:
    """See `Log.append_as_follower`.  Nothing is written of an answer that holds a damaged batch."""
    view = memoryview(batches)
    places, _, wrong = scan_batches(view, 0, len(view))
    if wrong.startswith("corrupt"):
        raise CorruptMessage(f"a batch of {log.topic_partition}, from the leader: {wrong}")
    number = 0
    while number < len(places):
        run = _run(log, view, places, number)
        if run > 1:
            _append_run(log, view, places[number : number + run])
            number += run
        else:
            _append_one(log, view, places[number])
            number += 1
    first_offset = places[0][2] if places else -1
    return Appended(first_offset, log.log_end_offset - 1, NO_TIMESTAMP)


def _run(log: "Log", view: memoryview, places: list[_Place], start: int) -> int:
    """How many batches from `start` on can be written at once."""
    segment, config = log.segments[-1], log.config
    room = config.segment_bytes - segment.size
    latest, end = log.epochs.latest, log.log_end_offset
    count = 0
    if not segment.size:
        return 0  # its first batch decides when it is closed
    for position, size, base_offset, last_offset, timestamp in places[start:]:
        epoch, producer_id = _EPOCH_AND_PRODUCER.unpack_from(view, position)
        room -= size
        if (
            producer_id >= 0
            or epoch != latest
            or base_offset < end
            or room < 0
            or timestamp > segment.roll_after
            or last_offset > segment.last_indexable_offset
        ):
            break
        end = last_offset + 1
        count += 1
    return count if segment.has_slots(count) else 0


def _append_run(log: "Log", view: memoryview, run: list[_Place]) -> None:
    segment = log.segments[-1]
    try:
        segment.write(view[run[0][0] : run[-1][0] + run[-1][1]])
    except OSError as error:
        raise log.write_failed(segment, error) from error
    for _, size, _, last_offset, timestamp in run:
        segment.written(size, last_offset, timestamp)
    log.log_end_offset = run[-1][3] + 1


def _append_one(log: "Log", view: memoryview, place: _Place) -> None:
    position, size, base_offset, last_offset, _ = place
    if base_offset < log.log_start_offset == log.log_end_offset <= last_offset:
        # It is to begin in the middle of a batch: DeleteRecords knows no batches.
        log.truncate_fully_to(base_offset)
    if base_offset < log.log_end_offset:
        raise CorruptMessage(
            f"the leader sent offset {base_offset} of {log.topic_partition}, "
            f"which ends at {log.log_end_offset}"
        )
    log.append_copy(view[position : position + size], parse_header(view, position))
