"""How long a broker's storage takes to load its partitions after a clean stop, and what it costs in descriptors.

python benchmarks/start_partitions.py [partitions]
"""

import os
import resource
import shutil
import sys
import tempfile
import time
from uuid import uuid4

from tidelog.clock import SystemClock
from tidelog.names import TopicPartition
from tidelog.records.batch import parse_header
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import File, Files, LocalFile, LocalFiles
from tidelog.storage.manager import LogManager


class UnsyncedFiles(LocalFiles):
    """Fills the disk without waiting for it; only the loading is measured."""

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        return UnsyncedFile(path, os.dup(file.fileno()))

    def sync_directory(self, path: str) -> None:
        return


class UnsyncedFile(LocalFile):
    def datasync(self) -> None:
        return


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    root = tempfile.mkdtemp(prefix="tidelog-start-")
    try:
        fill(root, partitions)
        before = time.perf_counter()
        logs = manager(root, LocalFiles())
        logs.start(broker_id=0, cluster_id="benchmark")
        seconds = time.perf_counter() - before
        descriptors = len(os.listdir("/proc/self/fd"))
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{len(logs)} partitions loaded in {seconds:.2f} s, {descriptors} descriptors open")
        print(f"peak memory, with the filling: {megabytes:.0f} MB")
        logs.release()
    finally:
        shutil.rmtree(root)


def fill(root: str, partitions: int) -> None:
    logs = manager(root, UnsyncedFiles())
    logs.start(broker_id=0, cluster_id="benchmark")
    batch = build_batch([(1_700_000_000_000, b"key", b"value" * 20, ())], producer_id=7, producer_epoch=0, base_sequence=0)  # fmt: skip
    header = parse_header(batch)
    topic_id = uuid4()
    before = time.perf_counter()
    for index in range(partitions):
        log = logs.get_or_create(TopicPartition("benchmark", index), topic_id)
        log.append_as_leader(batch, leader_epoch=0, header=header)
        log.high_watermark = log.log_end_offset
    print(f"{partitions} partitions made in {time.perf_counter() - before:.2f} s")
    before = time.perf_counter()
    logs.close()
    print(f"stopped cleanly in {time.perf_counter() - before:.2f} s")


def manager(root: str, files: Files) -> LogManager:
    return LogManager([root], files=files, clock=SystemClock(), config=LogConfig())


if __name__ == "__main__":
    main()
