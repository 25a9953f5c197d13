"""How fast the kernel is: compiled, interpreted, and beside kafka-python and aiokafka.

    python benchmarks/kernel.py [--seconds 0.5] [--json]

The interpreted figures come from a child process with TIDELOG_PURE=1.  Figures are the best of several rounds.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from tidelog import kernel
from tidelog.kernel.arrow import BITS
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records import build_batch
from tidelog.records.validate import Rules, validate_produced
from tidelog.storage.config import LogConfig

COUNT = 1000
NOW = 1_700_000_000_000
FAR = 1 << 62
ALL_COLUMNS = sum(BITS.values())


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls a second, the best of five rounds."""
    best, deadline = 0.0, time.perf_counter() + seconds
    times = 1
    while time.perf_counter() < deadline:
        began = time.perf_counter()
        for _ in range(times):
            call()
        took = time.perf_counter() - began
        best = max(best, times / took)
        times = max(1, int(best * seconds / 5))
    return best


def kernel_figures(seconds: float) -> dict[str, float]:
    """Of whichever twin this process has loaded."""
    found: dict[str, float] = {}
    for size in (200, 1000):
        rows = [(NOW + i, b"key-%06d" % i, bytes(size - 10), ()) for i in range(COUNT)]
        data = kernel.encode_records(rows, NOW)
        found[f"encode {size} B, records/s"] = COUNT * rate(
            partial(kernel.encode_records, rows, NOW), seconds
        )
        found[f"decode {size} B, records/s"] = COUNT * rate(
            partial(kernel.decode_records, data, 0, len(data), COUNT, 0, NOW), seconds
        )
        segment = (data, 0, len(data), COUNT, 0, NOW, -1)
        found[f"decode {size} B into columns, records/s"] = COUNT * rate(
            partial(kernel.decode_columns, [segment], ALL_COLUMNS, 0, FAR, -FAR, FAR, 1),
            seconds,
        )
        values = [row[2] for row in rows]
        found[f"send {size} B to an open draft, records/s"] = COUNT * rate(
            partial(_send_all, values), seconds
        )
    block = bytes(range(256)) * 4096
    found["CRC-32C of 1 MB, GB/s"] = len(block) / 1e9 * rate(lambda: kernel.crc32c(block), seconds)
    small = build_batch([(NOW, None, b"x" * 20, ())])
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="orders", partition_data=[PartitionProduceData(index=3, records=bytes(small))]
            )
        ],
    )
    frame = memoryview(encode(request, 9))
    rules = Rules.of(LogConfig())
    found["decode_produce, one partition, /s"] = rate(
        lambda: kernel.decode_produce(frame, 0, 9), seconds
    )
    found["generated codec, the same request, /s"] = rate(
        lambda: decode(ProduceRequest, frame, 0, 9), seconds
    )
    found["check_batch, 100 B, /s"] = rate(
        lambda: kernel.check_batch(small, 0, len(small)), seconds
    )
    found["validate_produced, 100 B, /s"] = rate(
        lambda: validate_produced(small, 0, len(small), api_version=9, rules=rules, now_ms=NOW),
        seconds,
    )
    log = bytes(build_batch([(NOW, None, b"x" * 4000, ())])) * 1000
    found["scan_batches of 4 KB batches, GB/s"] = (
        len(log) / 1e9 * rate(lambda: kernel.scan_batches(log, 0, len(log)), seconds)
    )
    return found


def _send_all(values: list[bytes]) -> None:
    draft = kernel.Draft(None, 61, 1 << 20, bytearray())
    draft.reserve(1 << 30)
    drafts = kernel.Drafts(time.time_ns)
    drafts.sticky = draft
    for value in values:
        drafts.add(value, None, None)


def peer_figures(seconds: float) -> dict[str, dict[str, float]]:
    """The same work by kafka-python and aiokafka; what is not installed is left out."""
    peers: dict[str, dict[str, float]] = {}
    for name, module in (("kafka-python", "kafka"), ("aiokafka", "aiokafka")):
        try:
            records = __import__(f"{module}.record.default_records", fromlist=["x"])
        except ImportError:
            continue
        found: dict[str, float] = {}
        for size in (200, 1000):
            rows = [(NOW + i, b"key-%06d" % i, bytes(size - 10), ()) for i in range(COUNT)]
            batch = bytes(build_batch(rows))

            def write(rows: list = rows, records: object = records) -> None:
                builder = records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
                for index, (timestamp, key, value, _) in enumerate(rows):
                    builder.append(index, timestamp, key, value, [])
                builder.build()

            def read(batch: bytes = batch, records: object = records) -> list:
                return [
                    (r.offset, r.timestamp, r.key, r.value, r.headers)
                    for r in records.DefaultRecordBatch(batch)
                ]

            found[f"encode {size} B, records/s"] = COUNT * rate(write, seconds)
            found[f"decode {size} B, records/s"] = COUNT * rate(read, seconds)
        peers[name] = found
    return peers


def interpreted_figures(seconds: float) -> dict[str, float]:
    """This very benchmark with the sources in place of the extensions."""
    run = subprocess.run(
        [sys.executable, __file__, "--seconds", str(seconds), "--only-kernel"],
        env=os.environ | {"TIDELOG_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(run.stdout)
    return found


def shown(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each figure")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only-kernel", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_kernel:
        print(json.dumps(kernel_figures(options.seconds)))
        return
    columns = {"compiled" if kernel.COMPILED else "not compiled": kernel_figures(options.seconds)}
    columns["interpreted"] = interpreted_figures(options.seconds)
    columns |= peer_figures(options.seconds)
    if options.json:
        print(json.dumps(columns, indent=2))
        return
    print(f"{'':40}" + "".join(f"{name:>16}" for name in columns))
    for line in columns["interpreted"]:
        print(
            f"{line:40}" + "".join(f"{shown(column.get(line)):>16}" for column in columns.values())
        )


if __name__ == "__main__":
    main()
