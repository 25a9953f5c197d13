"""How fast dirty logs are scanned after a kill, by batch size and by number of threads.

python benchmarks/recovery.py [megabytes of each log]
"""

import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from tidelog.clock import SystemClock
from tidelog.kernel import stamp_batch
from tidelog.names import TopicPartition
from tidelog.records.batch import parse_header
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.log import Log

LOGS = 4
BATCH_BYTES = (512, 16_384, 524_288)


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    for batch_bytes in BATCH_BYTES:
        root = tempfile.mkdtemp(prefix="tidelog-recovery-")
        try:
            for number in range(LOGS):
                fill(f"{root}/{number}", megabytes << 20, batch_bytes)
            for threads in (1, 2):
                seconds = recover(root, threads)
                rate = LOGS * megabytes / seconds
                print(f"batches of {batch_bytes:>6} bytes, {threads} thread(s): {seconds:5.2f} s, {rate:5.0f} MB/s")  # fmt: skip
        finally:
            shutil.rmtree(root)


def fill(directory: str, size: int, batch_bytes: int) -> None:
    """One segment, as a producer without idempotence leaves it."""
    os.makedirs(directory)
    batch = build_batch([(1_700_000_000_000, b"key", os.urandom(batch_bytes - 80), ())])
    length = parse_header(batch).size
    with open(f"{directory}/{0:020d}.log", "wb") as file:
        for offset in range(size // length):
            stamp_batch(batch, 0, offset, 0)
            file.write(batch)


def recover(root: str, threads: int) -> float:
    before = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda number: open_dirty(f"{root}/{number}", number), range(LOGS)))
    return time.perf_counter() - before


def open_dirty(directory: str, number: int) -> None:
    Log.open(
        directory,
        files=LocalFiles(),
        config=LogConfig(),
        clock=SystemClock(),
        topic_partition=TopicPartition("orders", number),
    ).close(clean=False)


if __name__ == "__main__":
    main()
