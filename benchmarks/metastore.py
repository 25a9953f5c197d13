"""What a change of metadata costs: one append to the SQLite metastore, beside a bare fsync of the same disk.

    python benchmarks/metastore.py [--changes 200] [--directory DIR]

The directory decides: a disk that lies about fsync, or one in memory, is quicker than any real one.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from tidelog.clock import SystemClock
from tidelog.metastore.sqlite import SqliteMetastore

RECORD = bytes(200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument(
        "--directory", default=None, help="where to write (the temporary directory)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        show("fdatasync of 200 bytes", bare(Path(directory), arguments.changes))
        show("append to the metastore", asyncio.run(appends(Path(directory), arguments.changes)))


def bare(directory: Path, count: int) -> list[float]:
    file = os.open(directory / "bare", os.O_RDWR | os.O_CREAT)
    try:
        return [timed_write(file, number) for number in range(count)]
    finally:
        os.close(file)


def timed_write(file: int, number: int) -> float:
    begun = time.perf_counter()
    os.pwrite(file, RECORD, number * len(RECORD))
    os.fdatasync(file)
    return time.perf_counter() - begun


async def appends(directory: Path, count: int) -> list[float]:
    store = SqliteMetastore(directory / "metadata.db", SystemClock())
    await store.open()
    session = await store.open_session(0, 10_000)
    epoch = await store.lead(session)
    assert epoch is not None
    seconds = []
    for _ in range(count):
        begun = time.perf_counter()
        await store.append(epoch, RECORD)
        seconds.append(time.perf_counter() - begun)
    await store.close()
    return seconds


def show(what: str, seconds: list[float]) -> None:
    median, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
    print(f"{what:24} median {median:6.2f} ms   slowest {worst:6.2f} ms")


if __name__ == "__main__":
    main()
