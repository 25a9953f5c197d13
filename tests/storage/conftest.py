"""What the tests of the storage engine share: batches, and logs in a directory of their own."""

import os
from typing import Any

import pytest

from tidelog.names import TopicPartition
from tidelog.records.batch import Record, iterate_batches, parse_header, read_records
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import Files, LocalFiles
from tidelog.storage.log import Appended, Log
from tidelog.testing.manual_clock import ManualClock

TP = TopicPartition("orders", 3)


class LogBench:
    """Opens, fills and reads logs of one directory."""

    def __init__(self, root: str, clock: ManualClock) -> None:
        self.root = root
        self.directory = os.path.join(root, str(TP))
        self.clock = clock

    def open(
        self,
        *,
        files: Files | None = None,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool = False,
        progress: Any = None,
        **config: Any,
    ) -> Log:
        return Log.open(
            self.directory,
            files=files or LocalFiles(),
            config=LogConfig(**config),
            clock=self.clock,
            topic_partition=TP,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            progress=progress,
        )

    def reopen_clean(self, log: Log, **config: Any) -> Log:
        log.close()
        return self.open(
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
            clean=True,
            **config,
        )

    def append(
        self,
        log: Log,
        values: list[bytes],
        *,
        timestamp: int | None = None,
        epoch: int = 0,
        coordinator: bool = False,
        commit: bool = True,
        **batch: Any,
    ) -> Appended:
        now = self.clock.now_ms() if timestamp is None else timestamp
        data = build_batch([(now, b"key", value, ()) for value in values], **batch)
        appended = log.append_as_leader(
            data, leader_epoch=epoch, header=parse_header(data), coordinator=coordinator
        )
        if commit:
            log.high_watermark = log.log_end_offset
        return appended

    def marker(self, log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> Appended:
        from tidelog.records.control import EndTransactionMarker

        data = EndTransactionMarker(commit=commit, coordinator_epoch=0).build(
            producer_id=producer_id, producer_epoch=epoch, timestamp_ms=self.clock.now_ms()
        )
        appended = log.append_as_leader(
            data, leader_epoch=0, header=parse_header(data), coordinator=True
        )
        log.high_watermark = log.log_end_offset
        return appended

    def records(self, log: Log, **options: Any) -> list[Record]:
        return read_all(log, **options)

    def values(self, log: Log, **options: Any) -> list[bytes | None]:
        return [each.value for each in read_all(log, **options)]


def read_all(log: Log, *, start: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Every record from `start`, fetch by fetch, each region checked for whole batches."""
    offset = log.log_start_offset if start is None else start
    records: list[Record] = []
    while (region := log.read(offset, max_bytes, up_to=log.high_watermark)) is not None:
        data = region.read()
        assert len(data) == region.length
        end = 0
        for position, header in iterate_batches(data):
            records += [each for each in read_records(data, position) if each.offset >= offset]
            end = position + header.size
        assert end == region.length
        assert region.end_offset > offset
        offset = region.end_offset
    return records


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bench(tmp_path: Any, clock: ManualClock) -> LogBench:
    return LogBench(str(tmp_path), clock)
