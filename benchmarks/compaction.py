"""How fast a log is compacted: the map, a whole pass, and what they cost in memory.

    python benchmarks/compaction.py [--records 200000] [--keys 20000] [--value 100] [--codec none]

Writes a log of batches of a hundred records into a temporary directory and runs one pass over it in this process.
"""

import argparse
import os
import resource
import tempfile
import time

from tidelog import kernel
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.storage.compaction import SegmentFacts
from tidelog.storage.compaction_pass import CleaningPass, Job
from tidelog.storage.files import LocalFiles
from tidelog.storage.keymap import KeyMap
from tidelog.storage.segment import file_name

BATCH = 100
NOW_MS = 1_700_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--value", type=int, default=100)
    parser.add_argument("--codec", default="none")
    options = parser.parse_args()
    print(f"kernel compiled: {kernel.COMPILED}")
    measure_map(options.records)
    with tempfile.TemporaryDirectory() as directory:
        codec = Codec[options.codec.upper()]
        size = write_log(directory, options.records, options.keys, options.value, codec)
        measure_pass(directory, options.records, size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak:.0f} MB")


def measure_map(count: int) -> None:
    keys = [b"user-%d" % number for number in range(count)]
    keymap = KeyMap(128 << 20, expected=count)
    began = time.perf_counter()
    for offset, key in enumerate(keys):
        keymap.put(key, offset)
    put = time.perf_counter() - began
    began = time.perf_counter()
    for key in keys:
        keymap.get(key)
    got = time.perf_counter() - began
    print(
        f"map: {put / count * 1e6:.2f} µs to put, {got / count * 1e6:.2f} µs to get, {count} keys"
    )
    keymap.close()


def write_log(directory: str, records: int, keys: int, value: int, codec: Codec) -> int:
    data = os.urandom(value)
    with open(os.path.join(directory, file_name(0)), "wb") as file:
        for base in range(0, records, BATCH):
            rows = [
                (NOW_MS, b"user-%d" % ((base + each) * 7919 % keys), data, ())
                for each in range(BATCH)
            ]
            file.write(build_batch(rows, base_offset=base, codec=codec))
        return file.tell()


def measure_pass(directory: str, records: int, size: int) -> None:
    job = Job(
        directory=directory,
        segments=[SegmentFacts(0, size)],
        first_dirty_offset=0,
        first_uncleanable_offset=records,
        aborted=[],
        producers={},
        now_ms=NOW_MS,
        delete_retention_ms=0,
        segment_bytes=1 << 30,
        segment_index_bytes=10 << 20,
        index_interval_bytes=4096,
        map_bytes=128 << 20,
        map_load_factor=0.9,
        io_buffer_bytes=256 << 10,
    )
    cleaning = CleaningPass(job, LocalFiles(), lambda spent: None)
    began = time.perf_counter()
    mapped = cleaning.map_keys()
    mapping = time.perf_counter() - began
    began = time.perf_counter()
    kept = sum(cleaning.clean(group).records_kept for group in mapped.groups)
    cleaned = time.perf_counter() - began
    cleaning.close()
    megabytes = size / 1e6
    print(f"mapped {records / mapping / 1e3:.0f} k records/s, {megabytes / mapping:.0f} MB/s")
    print(f"cleaned {records / cleaned / 1e3:.0f} k records/s, {megabytes / cleaned:.0f} MB/s")
    print(f"{records} records, {megabytes:.0f} MB → {kept} records")


if __name__ == "__main__":
    main()
