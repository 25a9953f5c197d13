"""A topic into Spark: into a count, into few columns, and into a lake's table; beside a Parquet file with the same bytes.

    .venv/bin/python benchmarks/spark.py --rows 1000000

Processor time is that of Spark's JVM and its Python workers, from /proc, divided by the rows; the broker's is left out.  The second of
two runs is shown: the first warms the JVM up.
"""

import argparse
import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidelog import Admin, Producer
from tidelog.spark import jobs, session
from tidelog.testing.local_broker import LocalBroker

_TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args()
    print(f"{'what':34} {'cpu µs/row':>11} {'krows/s':>9}")
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as place:
        spark = session("benchmark", arguments.master, **{"spark.ui.enabled": "false"})
        spark.sparkContext.setLogLevel("ERROR")
        for size in (200, 1000):
            for codec in ("none", "lz4"):
                topic = f"t-{size}-{codec}"
                fill(broker.bootstrap, topic, size, codec, arguments)
                for name, action in work(spark, broker.bootstrap, topic, place).items():
                    action()
                    show(f"{size} B, {codec}: {name}", arguments.rows, action, broker.pid)
        spark.stop()


def work(
    spark: SparkSession, bootstrap: str, topic: str, place: str
) -> dict[str, Callable[[], object]]:
    """What is measured."""
    parquet = f"{place}/{topic}.parquet"
    tries = itertools.count()

    def read(schema: str | None = None) -> DataFrame:
        made = spark.read.format("tidelog").option("subscribe", topic)
        made = made.option("kafka.bootstrap.servers", bootstrap)
        return (made.schema(schema) if schema else made).load()

    def load() -> object:
        kafka = {"bootstrap.servers": bootstrap}
        return jobs.load([topic], f"{place}/{topic}-{next(tries)}", kafka, spark=spark)

    def lengths(frame: DataFrame) -> object:
        return frame.selectExpr("sum(length(value))").first()

    read().write.parquet(parquet)
    return {
        "count": lambda: read().count(),
        "count, offsets alone": lambda: read("offset bigint").count(),
        "every value": lambda: lengths(read()),
        "lake": load,
        "parquet, every value": lambda: lengths(spark.read.parquet(parquet)),
    }


def fill(bootstrap: str, topic: str, size: int, codec: str, arguments: argparse.Namespace) -> None:
    """Values that compress to about a half, as JSON does."""
    dice = random.Random(1)
    values = [(dice.randbytes(size // 4).hex() + "x" * size)[:size].encode() for _ in range(1000)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({topic: arguments.partitions})
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        for number in range(arguments.rows):
            producer.send(topic, values[number % 1000], partition=number % arguments.partitions)


def show(name: str, rows: int, action: Callable[[], object], broker: int) -> None:
    cpu, began = cpu_s(broker), time.monotonic()
    action()
    wall = time.monotonic() - began
    print(
        f"{name:34} {(cpu_s(broker) - cpu) / rows * 1e6:11.2f} {rows / wall / 1000:9.0f}",
        flush=True,
    )


def cpu_s(broker: int) -> float:
    """Of this process and all below it but the broker, with those that have ended."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.parent.name)
        parents[pid] = int(fields[1])
        spent[pid] = sum(map(int, fields[11:15])) / _TICK
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    below = {broker}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(spent[pid] for pid in mine - below if pid in spent)


if __name__ == "__main__":
    main()
