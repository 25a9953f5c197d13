"""Cutting a log back, so that whatever the disk refuses the log stays whole and the cut can be tried again.

In order: what is known of the producers below the new end is found out (`prepared`, in a thread, while the log is as it was);
the recovery point on the disk is lowered (`LogManager.lower_recovery_point`); the snapshots of producers above go; segments go
from the last one back; the file that holds the new end is cut; memory follows each step; the leader epochs are written.

    what fails                        then
    a step before the cut             nothing has changed
    a segment is not removed          the log ends where the removed ones began
    the epochs are not written        nothing is appended before they are; a restart finds them too long, and cuts them
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.storage import failures, retention
from tidelog.storage.files import no_descriptor
from tidelog.storage.producer_log import Restoring
from tidelog.storage.producers import Producers
from tidelog.storage.recovery import create_segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log

NO_LIMIT = 1 << 62


@asynccontextmanager
async def prepared(log: "Log", offset: int) -> AsyncIterator[Producers | None]:
    """Do what waits for the disk before `log` is cut to `offset`, off the loop; what it gives goes to `Log.truncate_to`, at once.

    The log may have changed meanwhile: whoever cuts it looks first.  Afterwards the cut is synced: a power cut must not bring back
    what is behind it after something else was written there.
    """
    restored, before = None, log.truncations
    if offset < log.log_end_offset and log.producers.by_id:
        restoring = _restoring(log, offset)
        try:
            restored = await asyncio.get_running_loop().run_in_executor(None, restoring.run)
        except OSError as error:
            raise failures.refused(log, "read the producers of", error) from error
    log.recovery_limit = offset
    try:
        if log.on_cut is not None:
            await log.on_cut(log, offset)
        yield restored
        if log.truncations != before and log.failure is None:
            await _sync(log)
    finally:
        log.recovery_limit = NO_LIMIT


async def _sync(log: "Log") -> None:
    flush = None
    try:
        flush = log.prepare_flush()
        await asyncio.get_running_loop().run_in_executor(None, flush.run)
    except OSError as error:
        if not no_descriptor(error):
            raise failures.fail(log, error) from error
        if flush is not None:
            flush.undo()
        raise failures.refused(log, "sync", error) from error


def truncate_to(log: "Log", offset: int, restored: Producers | None = None) -> None:
    """See `Log.truncate_to`."""
    if offset >= log.log_end_offset:
        # An epoch whose first batch could not be written may still be noted, and would mislead who compares epochs.
        log.epochs.cut_from_end(offset)
        save_epochs(log)
        return
    if offset <= log.segments[0].base_offset:
        truncate_fully_to(log, offset)
        return
    before = log.truncations
    try:
        if restored is None:
            restored = _producers_below(log, offset)
        log.producer_log.drop_from(offset)
        _cut(log, offset)
    except OSError as error:
        raise _stopped(log, before, error) from error
    log.take_producers(restored)
    save_epochs(log)


def truncate_fully_to(log: "Log", offset: int) -> None:
    """See `Log.truncate_fully_to`."""
    before = log.truncations
    try:
        log.producer_log.drop_from(-1)
        while len(log.segments) > 1:
            _drop_last(log)
        last = log.segments[0]
        if last.base_offset == offset:
            last.truncate_at(0, offset)
        else:
            new = create_segment(log.source, offset)
            retention.discard(log, [last], delay=False)
            log.begins_with(new)
    except OSError as error:
        raise _stopped(log, before, error) from error
    log.log_start_offset = offset
    log.ends_at(offset)
    log.take_producers(Producers(offset))
    log.epochs.cut_from_end(-1)
    save_epochs(log)


def save_epochs(log: "Log") -> None:
    """Write the leader epochs if the file does not have them; nothing may be appended before it does."""
    if not log.epochs.unsaved:
        return
    try:
        log.epochs.save()
    except OSError as error:
        raise failures.refused(log, "write the leader epochs of", error) from error


def _stopped(log: "Log", before: int, error: OSError) -> KafkaStorageError:
    """The disk refused to go on: the log ends where it has come to, and the cut is to be tried again."""
    if log.truncations > before:
        try:
            log.take_producers(_producers_below(log, log.log_end_offset))
        except OSError as second:
            return failures.fail(log, second)
    return failures.refused(log, "cut back", error)


def _producers_below(log: "Log", offset: int) -> Producers:
    """Those that are known when the log ends at `offset`.  Where none is known now there is nothing to look for."""
    return _restoring(log, offset).run() if log.producers.by_id else Producers(offset)


def _restoring(log: "Log", offset: int) -> Restoring:
    return log.producer_log.restoring(log.segments, log.log_start_offset, offset)


def _cut(log: "Log", offset: int) -> None:
    while log.segments[-1].base_offset >= offset:
        _drop_last(log)
    log.segments[-1].truncate_to(offset)
    log.ends_at(offset)


def _drop_last(log: "Log") -> None:
    last = log.segments[-1]
    retention.discard(log, [last], delay=False)
    log.forget_last_segment()
    log.ends_at(last.base_offset)
