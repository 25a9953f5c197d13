"""Which segments a log no longer keeps, and the delayed removal of their files.

A deleted segment leaves the log at once; its files are renamed to `.deleted` and removed file.delete.delay.ms later, so
that readers can finish.  After a crash the renamed files are removed on start.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.log import Log


class Removal(NamedTuple):
    """Files that wait to be removed."""

    due_ms: int
    paths: list[str]


def delete_old_segments(log: "Log", now_ms: int) -> list[tuple[int, str]]:
    """See `Log.delete_old_segments`.  Nothing above the high watermark is ever deleted."""
    reasons = _deletable(log, now_ms)
    if not reasons:
        return []
    if len(reasons) == len(log.segments):
        # Even the active segment has expired; there must always be one to write to.
        log.roll()
    doomed = log.segments[: len(reasons)]
    deleted = [(each.base_offset, reason) for each, reason in zip(doomed, reasons, strict=True)]
    log.drop_first(doomed)
    return deleted


def discard(log: "Log", segments: Sequence[Segment], *, delay: bool = True) -> None:
    """Rename the files of segments that left the log, for removal later (or with the next round)."""
    due = log.clock.now_ms() + (log.config.file_delete_delay_ms if delay else 0)
    for segment in segments:
        paths = segment.mark_deleted()
        segment.release()
        log.removals.append(Removal(due, paths))
    log.hints.clear()
    log.directory_changed = True


def files_to_remove(log: "Log", now_ms: int) -> list[str]:
    """See `Log.files_to_remove`."""
    due = [each for each in log.removals if each.due_ms <= now_ms]
    if due:
        log.removals = [each for each in log.removals if each.due_ms > now_ms]
    return [path for each in due for path in each.paths]


def _deletable(log: "Log", now_ms: int) -> list[str]:
    """Why each of the oldest segments may go, from the first up to one that may not."""
    config = log.config
    deletes = "delete" in config.cleanup_policy
    surplus = log.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else -1
    reasons = []
    for number, segment in enumerate(log.segments):
        active = number + 1 == len(log.segments)
        end = log.log_end_offset if active else log.segments[number + 1].base_offset
        if end > log.high_watermark or (active and segment.size == 0):
            break
        reason = _below_start(log, end, active)
        if reason is None and deletes:
            reason = _too_old(segment, config.retention_ms, now_ms)
            if reason is None and surplus >= segment.size:
                reason = f"the log is larger than retention.bytes={config.retention_bytes}"
        if reason is None:
            break
        surplus -= segment.size
        reasons.append(reason)
    return reasons


def _below_start(log: "Log", end: int, active: bool) -> str | None:
    if not active and end <= log.log_start_offset:
        return f"it is below the log's start {log.log_start_offset}"
    return None


def _too_old(segment: Segment, retention_ms: int, now_ms: int) -> str | None:
    if retention_ms < 0:
        return None
    timestamp, _ = segment.maximum_timestamp()
    if timestamp < 0:
        timestamp = segment.created_ms
    if now_ms - timestamp > retention_ms:
        return f"its last record is older than retention.ms={retention_ms}"
    return None
