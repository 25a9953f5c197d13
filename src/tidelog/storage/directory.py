"""A log directory: one disk with its lock, its identity, its checkpoints and the logs that live on it.

.lock                               held while a broker runs on the directory
meta.properties                     which broker of which cluster it belongs to
.kafka_cleanshutdown, .tidelog_boot what is known of the last life, see last_life.py
recovery-point-offset-checkpoint …  offsets of every log, see checkpoints.py
<topic>-<partition>/                the logs
<topic>-<partition>.<id>-delete/    logs on their way out
<topic>-<partition>.<id>-stray/     logs that the metadata does not know, set aside
"""

import contextlib
import itertools
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Mapping
from uuid import uuid4

from tidelog.errors import KafkaStorageError, StartError
from tidelog.names import CLUSTER_METADATA, TopicPartition
from tidelog.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    MalformedCheckpoint,
    read_offsets,
    read_properties,
    write_offsets,
    write_properties,
)
from tidelog.storage.files import AlreadyLocked, Files, Lock
from tidelog.storage.last_life import NO_EPOCH, LastLife
from tidelog.storage.log import Log

LOCK = ".lock"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"

_LOG_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_FILE_NAME_MAX = 255

_logger = logging.getLogger(__name__)


class LogDirectory:
    """One of the broker's log.dirs."""

    def __init__(self, path: str, files: Files) -> None:
        self.path = os.path.abspath(path)
        self.logs: dict[TopicPartition, Log] = {}
        self.failure: KafkaStorageError | None = None
        """Why the directory is offline; None while it is not."""
        self.last_life = LastLife(files, self.path)
        self.clean = False
        """Whether the last stop was clean, so that nothing need be scanned."""
        self.whole_from_recovery_points = False
        """Whether nothing past a recovery point was ever compacted: it is a rule of ours, and of the time since we note epochs."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.noted_recovery_points: dict[TopicPartition, int] = {}
        """As they are on the disk."""
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """As the last run left them."""
        self._files = files
        self._lock: Lock | None = None
        # Several jobs write the same checkpoints, each in a thread: one at a time, and never an older one over a newer.
        self._writing = threading.Lock()
        self._notes = itertools.count(1)
        self._written: dict[str, float] = {}
        self._on_their_way: dict[int, dict[TopicPartition, int]] = {}
        """Recovery points that `checkpoints` has taken, by number, and that are not written yet."""

    def take(self, broker_id: int, cluster_id: str) -> None:
        """Lock the directory and make sure that it is ours; `StartError` or `OSError` if it cannot be used."""
        self._files.make_directory(self.path)
        if not self._files.exists(self._in(META_PROPERTIES)):
            self._sync_above()
        try:
            self._lock = self._files.lock(self._in(LOCK))
        except AlreadyLocked as error:
            raise StartError(
                f"{self.path} is in use by another broker (process {error.holder or 'unknown'}): "
                "stop it, or give this one a directory of its own"
            ) from None
        self._check_identity(broker_id, cluster_id)
        self.recovery_points, recovery_known = self._read(RECOVERY_POINTS)
        self.noted_recovery_points = dict(self.recovery_points)
        self.log_start_offsets, starts_known = self._read(LOG_START_OFFSETS)
        self.high_watermarks, _ = self._read(HIGH_WATERMARKS)
        mark_fits = self.last_life.read()
        if mark_fits is False:
            _logger.warning(
                "%s was changed after the last stop; the logs of %s are scanned instead",
                self._in(RECOVERY_POINTS),
                self.path,
            )
            self.recovery_points, recovery_known = {}, False
        known = recovery_known and self._files.exists(self._in(RECOVERY_POINTS))
        self.whole_from_recovery_points = known and self.last_life.epoch >= 0
        self.clean = mark_fits is not None and recovery_known and starts_known

    def log_names(self) -> dict[TopicPartition, str]:
        """The logs found here, and their directories' names; leftovers of deletions are not among them."""
        found = {}
        for name in self._files.directories(self.path):
            match = _LOG_NAME.fullmatch(name)
            if match and match["topic"] != CLUSTER_METADATA and not name.endswith(DELETE_SUFFIX):
                found[TopicPartition(match["topic"], int(match["partition"]))] = name
        return found

    def leftovers(self) -> list[str]:
        """Directories of logs whose deletion was interrupted."""
        names = self._files.directories(self.path)
        return [self._in(name) for name in names if name.endswith(DELETE_SUFFIX)]

    def log_path(self, topic_partition: TopicPartition) -> str:
        return self._in(str(topic_partition))

    def created(self) -> None:
        """A log's directory was made: let it survive a power cut."""
        self._files.sync_directory(self.path)

    def retire(self, log: Log, ending: str = DELETE_SUFFIX) -> str:
        """Rename a log's directory so that it is no log any more; returns the new path."""
        target = self._retired_path(log.topic_partition, ending)
        self._files.rename(log.directory, target)
        log.moved_to(target)
        self.logs.pop(log.topic_partition, None)
        return target

    def set_aside(self, topic_partition: TopicPartition) -> str:
        """The same for a log that was not opened, and is none of this broker's any more."""
        target = self._retired_path(topic_partition, STRAY_SUFFIX)
        self._files.rename(self.log_path(topic_partition), target)
        return target

    def epoch_with_everything(self, boot_id: str) -> int:
        """The epoch of the broker's last life here, if all that it wrote is still there; else -1."""
        return NO_EPOCH if self.failure else self.last_life.epoch_with_everything(boot_id)

    def checkpoints(self) -> Callable[[], None]:
        """The current offsets of all logs, to be written by calling the result, in a thread perhaps."""
        watermarks = {each: log.high_watermark for each, log in self.logs.items()}
        # A start at the first segment's base needs no note; most logs have no other.
        starts = {
            each: log.log_start_offset
            for each, log in self.logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        }

        write_recovery_points = self.recovery_point_checkpoint()
        number = next(self._notes)

        def write() -> None:
            write_recovery_points()
            self._write(LOG_START_OFFSETS, starts, number)
            self._write(HIGH_WATERMARKS, watermarks, number)

        return write

    def recovery_point_checkpoint(self) -> Callable[[], None]:
        """As `checkpoints`, for the recovery points alone: before partitions are resumed high watermarks are not known yet."""
        recovery = {each: log.recovery_point for each, log in self.logs.items()}
        number = next(self._notes)
        self._on_their_way[number] = recovery

        def write() -> None:
            try:
                self._write(RECOVERY_POINTS, recovery, number)
            finally:
                self._on_their_way.pop(number, None)

        return write

    def high_watermark_checkpoint(self) -> Callable[[], None]:
        """As `checkpoints`, for the high watermarks alone."""
        watermarks = {each: log.high_watermark for each, log in self.logs.items()}
        number = next(self._notes)
        return lambda: self._write(HIGH_WATERMARKS, watermarks, number)

    def may_note_more(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether a recovery point behind `offset` is on the disk, or will be."""
        notes = [self.noted_recovery_points, *self._on_their_way.values()]
        return any(each.get(topic_partition, 0) > offset for each in notes)

    def leave(self, *, clean: bool) -> None:
        """Write the mark of a clean stop, if it was one, and release the lock.  What a thread has yet to write is void."""
        with self._writing:
            self._written = dict.fromkeys(
                (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS), math.inf
            )
        if clean and self.failure is None:
            self.last_life.end()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, error: OSError) -> list[TopicPartition]:
        """The disk failed: all logs here go offline, and only they; which they are."""
        if self.failure is not None:
            return []
        reason = error.strerror or str(error)
        self.failure = KafkaStorageError(f"the log directory {self.path} failed: {reason}")
        _logger.error("%s is offline with %d logs: %s", self.path, len(self.logs), error)
        for log in self.logs.values():
            log.failure = log.failure or self.failure
        return list(self.logs)

    def _retired_path(self, topic_partition: TopicPartition, ending: str) -> str:
        suffix = f".{uuid4().hex}{ending}"
        return self._in(str(topic_partition)[: _FILE_NAME_MAX - len(suffix)] + suffix)

    def _sync_above(self) -> None:
        """Let a new directory survive a power cut, with those above it, which may be new as well."""
        path = self.path
        while (above := os.path.dirname(path)) != path:
            with contextlib.suppress(PermissionError):  # somebody else's, and there for long
                self._files.sync_directory(above)
            path = above

    def _check_identity(self, broker_id: int, cluster_id: str) -> None:
        path = self._in(META_PROPERTIES)
        found = read_properties(self._files, path)
        wanted = {"version": "0", "broker.id": str(broker_id), "cluster.id": cluster_id}
        # Kafka writes node.id in version 1 of this file.
        found_id = found.get("broker.id", found.get("node.id"))
        if found_id is not None and found_id != wanted["broker.id"]:
            raise StartError(
                f"{self.path} belongs to broker {found_id}, this is broker {broker_id}: "
                f"use the directory of this broker, or start with -X node.id={found_id}"
            )
        if found.get("cluster.id", cluster_id) != cluster_id:
            raise StartError(
                f"{self.path} belongs to the cluster {found['cluster.id']}, this is {cluster_id}: "
                "use another data directory, or the metastore of that cluster"
            )
        if not found:
            write_properties(self._files, path, wanted)

    def _read(self, name: str) -> tuple[dict[TopicPartition, int], bool]:
        try:
            return read_offsets(self._files, self._in(name)), True
        except MalformedCheckpoint as error:
            _logger.warning("%s; the logs of %s are scanned instead", error, self.path)
            return {}, False

    def _write(self, name: str, offsets: Mapping[TopicPartition, int], number: int) -> None:
        with self._writing:
            if number > self._written.get(name, 0):
                write_offsets(self._files, self._in(name), offsets)
                if name == RECOVERY_POINTS:
                    self.noted_recovery_points = dict(offsets)
                self._written[name] = number

    def _in(self, name: str) -> str:
        return os.path.join(self.path, name)
