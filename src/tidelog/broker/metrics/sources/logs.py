"""Logs and disks: sizes, offsets, flushes, and the cleaner of compacted topics."""

from collections.abc import Iterator

from tidelog.broker.metrics.families import Found, counter, gauge, summary_ms
from tidelog.broker.metrics.sight import Sight

SIZE = gauge(
    "kafka_log_log_size", "Bytes of a partition on this broker.", "topic", "partition", many=True
)
START = gauge(
    "kafka_log_log_logstartoffset",
    "First offset of a partition on this broker.",
    "topic",
    "partition",
    many=True,
)
END = gauge(
    "kafka_log_log_logendoffset",
    "Offset that the next message of a partition gets on this broker.",
    "topic",
    "partition",
    many=True,
)
SEGMENTS = gauge(
    "kafka_log_log_numlogsegments",
    "Segments of a partition on this broker.",
    "topic",
    "partition",
    many=True,
)
FLUSHES = summary_ms(
    "kafka_log_logflushstats_logflushrateandtimems",
    "Flushes of logs to the disk, and milliseconds that each took.",
)
OFFLINE_DIRECTORIES = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "Log directories whose disk failed. Should be 0.",
)
DIRECTORY_OFFLINE = gauge(
    "kafka_log_logmanager_logdirectoryoffline",
    "1 for a log directory whose disk failed.",
    "logdirectory",
)
MAX_DIRTY = gauge(
    "kafka_log_logcleanermanager_max_dirty_percent",
    "Of the dirtiest compacted log, how much is not compacted, in percent.",
)
UNCLEANABLE = gauge(
    "kafka_log_logcleanermanager_uncleanable_partitions",
    "Compacted logs that are left alone because their bytes are corrupt. Should be 0.",
)
COMPACTION_DELAY = gauge(
    "tidelog_cleaner_max_compaction_delay_seconds",
    "How long the compacted log that waits longest is overdue.",
)
CLEANING = gauge("tidelog_cleaner_logs_in_progress", "Logs that are being compacted now.")
LAST_LOOK = gauge(
    "tidelog_cleaner_last_look_age_seconds",
    "Time since the cleaner looked for something to do; grows while it is at work, and if it is stuck.",
)
LAST_PASS = gauge(
    "tidelog_cleaner_last_pass_seconds", "How long the last compaction of a log took."
)
BUFFER = gauge(
    "kafka_log_logcleaner_max_buffer_utilization_percent",
    "How full the map of keys was at the last compaction, in percent.",
)
RECOPY = gauge(
    "kafka_log_logcleaner_cleaner_recopy_percent",
    "How much of what the cleaner has read it has written again, in percent.",
)
PASSES = counter("tidelog_cleaner_passes_total", "Compactions of a log.")
FAILURES = counter(
    "tidelog_cleaner_failures_total", "Compactions of a log that failed. Should stay 0."
)
CLEANED_RECORDS = counter(
    "tidelog_cleaner_removed_records_total", "Records that the cleaner has removed."
)


def collect(sight: Sight) -> Iterator[Found]:
    partitions = sight.census.partitions
    yield SIZE.rows(((p.topic, str(p.index)), p.log.size_bytes) for p in partitions)
    yield START.rows(((p.topic, str(p.index)), p.log_start_offset) for p in partitions)
    yield END.rows(((p.topic, str(p.index)), p.log_end_offset) for p in partitions)
    yield SEGMENTS.rows(((p.topic, str(p.index)), len(p.log.segments)) for p in partitions)
    yield FLUSHES.value(sight.flusher.times)
    directories = sight.services.logs.directories
    yield OFFLINE_DIRECTORIES.value(sum(each.failure is not None for each in directories))
    yield DIRECTORY_OFFLINE.rows(
        [((each.path,), int(each.failure is not None)) for each in directories]
    )
    yield from _cleaner(sight)


def _cleaner(sight: Sight) -> Iterator[Found]:
    cleaner = sight.cleaner()
    if cleaner is None:
        return
    counters = cleaner.counters
    yield MAX_DIRTY.value(100 * counters.max_dirty_ratio)
    yield UNCLEANABLE.value(len(cleaner.uncleanable))
    yield COMPACTION_DELAY.value(counters.max_compaction_delay_ms / 1000)
    yield CLEANING.value(cleaner.in_progress)
    if counters.last_look_ms >= 0:
        age_ms = sight.services.clock.now_ms() - counters.last_look_ms
        yield LAST_LOOK.value(max(age_ms, 0) / 1000)
    yield LAST_PASS.value(counters.last_pass_seconds)
    yield BUFFER.value(100 * counters.last_map_utilization)
    yield RECOPY.value(100 * counters.bytes_written / max(counters.bytes_read, 1))
    yield PASSES.value(counters.passes)
    yield FAILURES.value(counters.failures)
    yield CLEANED_RECORDS.value(counters.records_read - counters.records_kept)
