"""All logs of a broker, on one or more log directories.

    logs = LogManager(["/var/lib/tidelog"], files=LocalFiles(), clock=clock, config=LogConfig())
    logs.start(broker_id=0, cluster_id="…")
    log = logs.get_or_create(TopicPartition("orders", 0), topic_id, config)
    ...
    logs.close()

A directory whose disk fails goes offline with its logs; the others go on.  The periodic jobs at the end of the class are
plain functions: the broker decides when they run.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from uuid import UUID

from tidelog.clock import Clock
from tidelog.errors import KafkaStorageError, StartError
from tidelog.names import TopicPartition
from tidelog.storage.checkpoints import MalformedCheckpoint, read_topic_id, write_topic_id
from tidelog.storage.config import LogConfig
from tidelog.storage.directory import DELETE_SUFFIX, STRAY_SUFFIX, LogDirectory
from tidelog.storage.files import Files, will_pass
from tidelog.storage.flusher import Flusher
from tidelog.storage.last_life import NO_EPOCH
from tidelog.storage.log import PRODUCER_EXPIRATION_MS, Log
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.progress import Progress

_logger = logging.getLogger(__name__)

_CLOSED_ONE_BY_ONE = 64
_CLOSING_THREADS = 16

_MADE_AT_ONCE = 32
"""Logs that a thread makes before others who wait for one have their turn."""

_Wanted = tuple[TopicPartition, UUID | None, LogConfig]


class LogManager:
    """Finds, makes, deletes and looks after the logs of a broker."""

    def __init__(
        self,
        directories: Sequence[str],
        *,
        files: Files,
        clock: Clock,
        config: LogConfig,
        flusher: Flusher | None = None,
        executor: Executor | None = None,
        open_segments_max: int = 4096,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        self.directories = [LogDirectory(path, files) for path in directories]
        self.config = config
        self.on_offline: Callable[[list[TopicPartition], KafkaStorageError], None] | None = None
        """Called when a directory fails, with its partitions."""
        self._files = files
        self._clock = clock
        self._flusher = flusher
        self._executor = executor
        self._open_segments = OpenSegments(open_segments_max)
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._retired: list[tuple[int, str]] = []
        """When, and which directories of deleted logs are to be removed."""
        self._unsynced: list[LogDirectory] = []
        """Directories in which logs were made that a power cut might still take away."""
        self._being_made: set[TopicPartition] = set()
        """By a thread."""
        self._making: asyncio.Task[None] | None = None
        """What `create_many` has begun, though whoever asked for it may be gone."""
        self._closed = False
        self._progress: Progress | None = None
        """Only while starting."""

    # ------------------------------------------------------------------ life

    def start(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        config_for: Callable[[str], LogConfig] | None = None,
    ) -> None:
        """Lock the directories and load every log; `StartError` if none of them can be used, or if one is only full.

        `config_for` gives the settings of a topic; without it all have the broker's.
        """
        try:
            for directory in self.directories:
                try:
                    directory.take(broker_id, cluster_id)
                    self._load(directory, config_for or (lambda topic: self.config))
                except OSError as error:
                    if will_pass(error):
                        # Offline it would stay so after there is room again, and its replicas would count as lost.
                        raise StartError(
                            f"{directory.path} cannot be opened at the moment: {error}. "
                            "Make room on its disk, or allow more open files, and start again"
                        ) from error
                    self._directory_failed(directory, error)
            self._check_usable()
        except StartError:
            self.release()
            raise

    def last_epoch(self, boot_id: str) -> int:
        """The broker epoch of the last life, if all that was written in it is here; -1 if something may be missing."""
        epochs = {each.epoch_with_everything(boot_id) for each in self.directories}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    async def begin_life(self, boot_id: str, broker_epoch: int) -> None:
        """The broker is registered under this epoch, and has told the cluster whether it lost anything before."""
        for directory in self._usable():
            # With a checkpoint: from now on nothing is compacted past what is noted there (`Cleaner`).
            await self._in_thread(directory, directory.recovery_point_checkpoint())
            begin = partial(directory.last_life.begin, boot_id, broker_epoch)
            await self._in_thread(directory, begin)

    def close(self, *, clean: bool = True) -> bool:
        """Sync and close every log, write the checkpoints and the mark of a clean stop; blocking.

        Whether that worked on every directory.
        """
        self._closed = True
        worked = clean
        for directory in self.directories:
            try:
                self._close_logs(list(directory.logs.values()), clean)
                if clean and directory.failure is None:
                    directory.checkpoints()()
                directory.leave(clean=clean)
            except (KafkaStorageError, OSError) as error:
                _logger.error("%s was not closed cleanly: %s", directory.path, error)
                directory.leave(clean=False)
                worked = False
            worked = worked and directory.failure is None
        self._logs.clear()
        self._homes.clear()
        return worked

    def _close_logs(self, logs: list[Log], clean: bool) -> None:
        if len(logs) < _CLOSED_ONE_BY_ONE:
            for log in logs:
                log.close(clean=clean)
            return
        # Each waits for the disk several times, and the disk serves many as quickly as one.
        with ThreadPoolExecutor(_CLOSING_THREADS) as pool:
            list(pool.map(lambda log: log.close(clean=clean), logs))

    def release(self) -> None:
        """Give up the locks without touching the logs."""
        for directory in self.directories:
            directory.leave(clean=False)

    # ------------------------------------------------------------------ logs

    def __iter__(self) -> Iterator[Log]:
        """The logs that can be used."""
        return iter([log for log in self._logs.values() if log.failure is None])

    def __len__(self) -> int:
        return len(self._logs)

    def __contains__(self, topic_partition: object) -> bool:
        """Whether there is such a log, usable or not."""
        return topic_partition in self._logs

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log, None if there is none; `KafkaStorageError` if its directory is offline."""
        log = self._logs.get(topic_partition)
        if log is not None and log.failure is not None:
            raise log.failure
        return log

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig | None = None,
        *,
        sync: bool = True,
    ) -> Log:
        """The log of a partition, made if need be on the directory with the fewest logs.

        Who makes many at once leaves out the `sync` of each, and calls `sync_directories` after the last.
        """
        log = self.get(topic_partition)
        if log is None:
            log = self._create(topic_partition, topic_id, config or self.config, sync)
        elif config is not None and config != log.config:
            log.set_config(config)
        if log.topic_id is None and topic_id is not None:
            try:
                self._note_topic_id(log, topic_id)
            except OSError as error:
                raise self._trouble(self._homes[topic_partition], error) from error
        return log

    def sync_directories(self) -> None:
        """Let the logs that were made without `sync` survive a power cut."""
        unsynced, self._unsynced = self._unsynced, []
        for directory in unsynced:
            try:
                directory.created()
            except OSError as error:
                self._trouble(directory, error)
                if directory.failure is None:
                    self._unsynced.append(directory)

    async def create_many(self, wanted: Sequence[_Wanted]) -> None:
        """Make the logs that are missing, without holding up the loop: the files are made in a thread.

        A directory that fails goes offline; `get_or_create` tells of it.  A thread cannot be called back: if the call is cancelled,
        what it has begun is done all the same, and the next call waits for that.
        """
        while self._making is not None:
            await asyncio.wait((self._making,))
        task = self._making = asyncio.create_task(self._create_many(wanted))
        task.add_done_callback(self._made)
        await asyncio.shield(task)

    def _made(self, _: object) -> None:
        self._making = None

    async def _create_many(self, wanted: Sequence[_Wanted]) -> None:
        missing = [each for each in wanted if each[0] not in self._logs]
        for start in range(0, len(missing), _MADE_AT_ONCE):
            for directory, group in self._spread(missing[start : start + _MADE_AT_ONCE]):
                made: list[Log] = []
                self._being_made = {each[0] for each in group}
                try:
                    make = partial(self._make_all, directory, group, made)
                    await self._in_thread(directory, make)
                finally:
                    self._being_made = set()
                if self._closed:
                    return
                for log in made:
                    self._add(directory, log).failure = directory.failure
        unsynced, self._unsynced = self._unsynced, []
        for directory in unsynced:
            await self._in_thread(directory, directory.created)

    def delete(self, topic_partition: TopicPartition) -> None:
        """The log is gone at once; its files go file.delete.delay.ms later."""
        log = self._logs.get(topic_partition)
        path = self._retire(topic_partition, DELETE_SUFFIX)
        if log is not None and path is not None:
            due_ms = self._clock.now_ms() + log.config.file_delete_delay_ms
            self._retired.append((due_ms, path))

    def set_aside(self, topic_partition: TopicPartition) -> str | None:
        """The log is none of this broker's any more, but nobody has said to delete it; where its files are."""
        return self._retire(topic_partition, STRAY_SUFFIX)

    def _retire(self, topic_partition: TopicPartition, ending: str) -> str | None:
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return None
        directory = self._homes.pop(topic_partition)
        directory.high_watermarks.pop(topic_partition, None)
        log.on_failure = None  # whoever still works on it may find its files gone
        log.close(clean=False)
        try:
            return directory.retire(log, ending)
        except OSError as error:
            directory.logs.pop(topic_partition, None)
            raise self._directory_failed(directory, error) from error

    def noted_high_watermark(self, topic_partition: TopicPartition) -> int:
        """What of a log was known to be committed when it was last written down; 0 if it never was."""
        home = self._homes.get(topic_partition)
        return home.high_watermarks.get(topic_partition, 0) if home is not None else 0

    def home_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory that holds a log."""
        return self._homes.get(topic_partition)

    # ------------------------------------------------------------------ periodic jobs

    async def checkpoint_high_watermarks(self) -> None:
        """Write down high watermarks alone: where there are other replicas they change while nothing is flushed."""
        for directory in self._usable():
            await self._in_thread(directory, directory.high_watermark_checkpoint())

    async def note_recovery_point(self, log: Log) -> None:
        """Write down where a log is synced to, now; `KafkaStorageError` if the disk refuses."""
        directory = self._homes.get(log.topic_partition)
        if directory is None:
            return  # it is being deleted
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, directory.recovery_point_checkpoint())
        except OSError as error:
            raise self._trouble(directory, error) from error

    async def lower_recovery_point(self, log: Log, offset: int) -> None:
        """A log is about to be cut to `offset`: what is written there anew must not count as synced after a power cut."""
        home = self._homes.get(log.topic_partition)
        if home is None:
            return
        log.recovery_point = min(log.recovery_point, offset)
        if home.may_note_more(log.topic_partition, offset):
            await self.note_recovery_point(log)

    async def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks."""
        for directory in self._usable():
            await self._in_thread(directory, directory.checkpoints())

    async def apply_retention(self) -> list[tuple[TopicPartition, int, str]]:
        """Delete what the settings no longer keep: partition, base offset, why."""
        now_ms = self._clock.now_ms()
        deleted = []
        for number, log in enumerate(self):
            if number % 100 == 99:
                await asyncio.sleep(0)  # thousands of partitions must not hold up the loop
            if log.failure is not None or log.topic_partition not in self._logs:
                continue
            try:
                log.roll_if_old(now_ms)
                for base_offset, why in log.delete_old_segments(now_ms):
                    deleted.append((log.topic_partition, base_offset, why))
                    _logger.info(
                        "%s: segment %d deleted, %s", log.topic_partition, base_offset, why
                    )
            except OSError as error:
                if will_pass(error):
                    _logger.error("retention of %s: %s", log.topic_partition, error)
                else:
                    log.fail(error)
            except KafkaStorageError as error:
                _logger.error("retention of %s: %s", log.topic_partition, error)
        return deleted

    async def remove_files(self) -> None:
        """Remove the files of deleted segments and logs whose delay is over."""
        now_ms = self._clock.now_ms()
        for directory in self._usable():
            doomed = [
                path for log in directory.logs.values() for path in log.files_to_remove(now_ms)
            ]
            if doomed:
                await self._in_thread(directory, partial(self._remove, doomed))
        trees = [path for due, path in self._retired if due <= now_ms]
        self._retired = [each for each in self._retired if each[0] > now_ms]
        for tree in trees:
            directory = next(
                each for each in self.directories if each.path == os.path.dirname(tree)
            )
            await self._in_thread(directory, partial(self._files.remove_tree, tree))

    async def flush_by_time(self) -> None:
        """Flush the logs whose flush.ms is over."""
        if self._flusher is None:
            return
        now_ms = self._clock.now_ms()
        for log in self:
            dirty = log.recovery_point < log.log_end_offset
            if dirty and now_ms - log.last_flush_ms >= log.config.flush_ms:
                try:
                    await self._flusher.flush(log, log.log_end_offset)
                except KafkaStorageError as error:
                    _logger.error("flush of %s: %s", log.topic_partition, error)

    async def expire_producers(self) -> int:
        """Forget silent producers; how many."""
        return sum(len(log.expire_producers()) for log in self if log.producers.by_id)

    # ------------------------------------------------------------------ inside

    def _load(self, directory: LogDirectory, config_for: Callable[[str], LogConfig]) -> None:
        for path in directory.leftovers():
            self._retired.append((0, path))
        names = directory.log_names()
        progress = self._progress = Progress(self._clock, len(names))
        for number, topic_partition in enumerate(names, 1):
            progress.begin(str(topic_partition), number)
            if topic_partition in self._homes and not self._set_older_aside(
                topic_partition, directory
            ):
                continue
            log = self._open(directory, topic_partition, config_for(topic_partition.topic))
            try:
                log.topic_id = read_topic_id(self._files, log.directory)
            except MalformedCheckpoint as error:
                _logger.warning("%s; it is written anew", error)
        # What is left is of logs that are gone; one of the same name must begin at 0.
        directory.recovery_points.clear()
        directory.log_start_offsets.clear()
        self._progress = None

    def _set_older_aside(self, topic_partition: TopicPartition, directory: LogDirectory) -> bool:
        """A log is here and on another directory: set the one aside whose directory was away; whether that is the other one.

        While a disk is away its replica may be moved away and come again, or be deleted and made anew.
        """
        other = self._homes[topic_partition]
        here, there = directory.last_life.epoch, other.last_life.epoch
        if here == there:
            raise StartError(
                f"{topic_partition} is in {directory.path} and in {other.path}: move one of them away"
            )
        if here > there:
            path = self.set_aside(topic_partition)
        else:
            path = directory.set_aside(topic_partition)
        _logger.warning(
            "%s was away while %s was made anew; its old files are set aside, remove %s to have the room",
            min(directory, other, key=lambda each: each.last_life.epoch).path,
            topic_partition,
            path,
        )
        return here > there

    def _create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        sync: bool,
    ) -> Log:
        if topic_partition in self._being_made:
            raise KafkaStorageError(f"{topic_partition} is being made")
        usable = self._usable()
        if not usable:
            raise KafkaStorageError("every log directory is offline")
        directory = min(usable, key=lambda each: len(each.logs))
        try:
            log = self._make(directory, topic_partition, topic_id, config)
            if sync:
                directory.created()
        except OSError as error:
            raise self._trouble(directory, error) from error
        return self._add(directory, log)

    def _spread(self, wanted: Sequence[_Wanted]) -> list[tuple[LogDirectory, list[_Wanted]]]:
        """Which log goes to which directory: always to the one with the fewest."""
        plan: dict[LogDirectory, list[_Wanted]] = {each: [] for each in self._usable()}
        for each in wanted if plan else ():
            plan[min(plan, key=lambda one: len(one.logs) + len(plan[one]))].append(each)
        return list(plan.items())

    def _make_all(
        self, directory: LogDirectory, wanted: Sequence[_Wanted], made: list[Log]
    ) -> None:
        for topic_partition, topic_id, config in wanted:
            try:
                made.append(self._make(directory, topic_partition, topic_id, config))
            except OSError:
                # It will be made on another directory, and may not be found on both after a restart.
                with contextlib.suppress(OSError):
                    self._files.remove_tree(directory.log_path(topic_partition))
                raise

    def _make(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
    ) -> Log:
        """A new log and its files, which nobody knows yet; this may run in a thread."""
        path = directory.log_path(topic_partition)
        self._files.make_directory(path)
        log = self._load_log(directory, topic_partition, config)
        if topic_id is not None:
            self._note_topic_id(log, topic_id)
        return log

    def _note_topic_id(self, log: Log, topic_id: UUID) -> None:
        # Synced with the first records: a sync for each of thousands of new logs would take long.
        log.producer_log.unsynced.append(write_topic_id(self._files, log.directory, topic_id))
        log.topic_id = topic_id

    def _open(
        self, directory: LogDirectory, topic_partition: TopicPartition, config: LogConfig
    ) -> Log:
        """A log that is on the disk already."""
        recovery_point = directory.recovery_points.pop(topic_partition, 0)
        log_start_offset = directory.log_start_offsets.pop(topic_partition, 0)
        log = self._load_log(directory, topic_partition, config, recovery_point, log_start_offset)
        if log.was_damaged:
            directory.last_life.distrust()
        return self._add(directory, log)

    def _load_log(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: LogConfig,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> Log:
        return Log.open(
            directory.log_path(topic_partition),
            files=self._files,
            config=config,
            clock=self._clock,
            topic_partition=topic_partition,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=directory.clean,
            whole_from=recovery_point if directory.whole_from_recovery_points else None,
            open_segments=self._open_segments,
            producer_expiration_ms=self._producer_expiration_ms,
            progress=self._progress,
        )

    def _add(self, directory: LogDirectory, log: Log) -> Log:
        """From now on the log is known."""
        log.on_failure = lambda _, error: self._log_failed(directory, error)
        log.on_cut = self.lower_recovery_point
        if self._flusher is not None:
            log.on_roll = self._flusher.flush_soon
        directory.logs[log.topic_partition] = log
        self._logs[log.topic_partition] = log
        self._homes[log.topic_partition] = directory
        if directory not in self._unsynced:
            self._unsynced.append(directory)
        return log

    def _usable(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failure is None]

    def _check_usable(self) -> None:
        if not self._usable():
            reasons = "; ".join(str(each.failure) for each in self.directories)
            raise StartError(
                f"no log directory can be used: {reasons}. "
                "Make the directory writable, or choose another with --data"
            )

    def _log_failed(self, directory: LogDirectory, error: OSError) -> None:
        self._directory_failed(directory, error)

    def _trouble(self, directory: LogDirectory, error: OSError) -> KafkaStorageError:
        """Something could not be written: the directory goes offline, unless the disk is sound and only full."""
        if not will_pass(error):
            return self._directory_failed(directory, error)
        _logger.error("%s: %s", directory.path, error)
        return KafkaStorageError(f"the log directory {directory.path}: {error.strerror or error}")

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> KafkaStorageError:
        partitions = directory.fail(error)
        for each in self.directories:
            each.last_life.cast_doubt()
        failure = directory.failure
        assert failure is not None
        if partitions and self.on_offline is not None:
            self.on_offline(partitions, failure)
        return failure

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._files.remove(path)

    async def _in_thread(self, directory: LogDirectory, work: Callable[[], object]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except OSError as error:
            self._trouble(directory, error)
