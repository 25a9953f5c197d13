"""What a fetch costs in a log of 1 GB and in one of 50 GB: the same, whatever lies before and behind the records.

python benchmarks/log_size.py

The logs are made sparse: real batches lie at the beginning, in the middle and at the end of every segment, the rest is one batch
whose bytes were never written, so that 50 GB cost no disk.  Measured is what a fetch does: find the offset, end at a whole
batch, read 64 KB of it; and the look-up of a timestamp.
"""

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from typing import BinaryIO

from tidelog.clock import SystemClock
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.records.batch import HEADER, parse_header
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.index import OffsetIndex, TimeIndex
from tidelog.storage.log import Log

GIGABYTE = 1 << 30
SEGMENT_BYTES = GIGABYTE - (1 << 20)
RUN = 2000
"""Batches in each of the three stretches of a segment that are really written."""
FETCH_BYTES = 64 << 10
ROUNDS = 3000
FIRST_TIME_MS = 1_700_000_000_000


def main() -> None:
    sizes = [int(each) for each in sys.argv[1:]] or [1, 50]
    for gigabytes in sizes:
        root = tempfile.mkdtemp(prefix="tidelog-size-")
        try:
            started = time.perf_counter()
            log = make(root, gigabytes)
            opened = time.perf_counter() - started
            fetch, find = measure(log)
            print(
                f"{gigabytes:>3} GB in {len(log.segments):>3} segments: "
                f"fetch {fetch:6.1f} µs, look-up by time {find:6.1f} µs (medians); made and opened in {opened:.1f} s"
            )
            log.close(clean=False)
        finally:
            shutil.rmtree(root)


def make(root: str, gigabytes: int) -> Log:
    """A log of closed segments, as after a clean stop."""
    offset = 0
    for _ in range(gigabytes):
        offset = make_segment(root, offset)
    return Log.open(
        root,
        files=LocalFiles(),
        config=LogConfig(),
        clock=SystemClock(),
        topic_partition=TopicPartition("orders", 0),
        recovery_point=offset,
        clean=True,
    )


def make_segment(root: str, base_offset: int) -> int:
    """Stretches of batches with one huge, hollow batch between them; returns the offset after the segment."""
    files, stem = LocalFiles(), f"{root}/{base_offset:020d}"
    offsets = OffsetIndex(files, stem + ".index", base_offset)
    times = TimeIndex(files, stem + ".timeindex", base_offset)
    batch = build_batch([(0, b"key", random.randbytes(900), ())])
    size = parse_header(batch).size
    hollow = (SEGMENT_BYTES - 3 * RUN * size) // 2
    offset, position, since_entry = base_offset, 0, 0
    with open(stem + ".log", "wb") as file:
        for stretch in range(3):
            for _ in range(RUN):
                write_batch(file, batch, offset, position)
                if since_entry > 4096:
                    offsets.append(offset, position)
                    times.append(FIRST_TIME_MS + offset, offset)
                    since_entry = 0
                offset, position, since_entry = offset + 1, position + size, since_entry + size
            if stretch < 2:
                header = parse_header(batch)._replace(
                    base_offset=offset, length=hollow - 12, max_timestamp=FIRST_TIME_MS + offset
                )
                file.seek(position)
                file.write(HEADER.pack(*header))
                offset, position = offset + 1, position + hollow
        file.truncate(position)
    offsets.save()
    times.save()
    return offset


def write_batch(file: BinaryIO, batch: bytearray, offset: int, position: int) -> None:
    stamp_batch(batch, 0, offset, 0)
    batch[27:43] = (FIRST_TIME_MS + offset).to_bytes(8, "big") * 2
    file.seek(position)
    file.write(batch)


def measure(log: Log) -> tuple[float, float]:
    """Medians in microseconds, at random places of the log."""
    chance, end = random.Random(4711), log.log_end_offset
    per_segment = end // len(log.segments)
    fetches, finds = [], []
    for _ in range(ROUNDS):
        # Away from the hollow batches: a fetch of one of those would be a gigabyte.
        within = chance.randrange(3) * (RUN + 1) + chance.randrange(RUN - 100)
        offset = chance.randrange(len(log.segments)) * per_segment + within
        before = time.perf_counter()
        region = log.read(offset, FETCH_BYTES, up_to=end)
        assert region is not None
        data = os.pread(region.file.fileno(), region.length, region.position)
        fetches.append(time.perf_counter() - before)
        assert len(data) == region.length > FETCH_BYTES // 2
        before = time.perf_counter()
        found = log.find_timestamp(FIRST_TIME_MS + offset, up_to=end)
        finds.append(time.perf_counter() - before)
        assert found is not None
        assert found[1] == offset
    return statistics.median(fetches) * 1e6, statistics.median(finds) * 1e6


if __name__ == "__main__":
    main()
