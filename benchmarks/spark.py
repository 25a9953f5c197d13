"""A topic into Spark: into a count, into Parquet, into a lake's table; beside Spark's own Kafka connector, a Parquet file with the same bytes, and a
plain loop of confluent-kafka's.

    .venv/bin/python benchmarks/spark.py --rows 1000000 [--sizes 200,1000] [--codecs none,lz4] [--json FILE]

Processor time is that of Spark's JVM and its Python workers, from /proc, divided by the rows; the broker's is left out.  The second of
two runs is shown: the first warms the JVM up.  Spark's connector is fetched with Maven; where it cannot be had its lines are missing, and the reason is printed.
The last lines: what a task costs that reads nothing, Avro decoded on one core, and the most memory that the JVM and a Python worker had.
"""

import argparse
import io
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidelog import Admin, Producer
from tidelog.spark import jobs, session
from tidelog.testing.local_broker import LocalBroker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "spark"))
from stock_connector import connector

_TICK = os.sysconf("SC_CLK_TCK")
_WIDTH = 44


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--driver-memory", default="1g")
    parser.add_argument("--sizes", default="200,1000", help="bytes of a record, with commas")
    parser.add_argument("--codecs", default="none,lz4")
    parser.add_argument("--json", type=Path, help="keep what a row takes here, too")
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    stock = connector()
    if stock.reason:
        print(f"without Spark's own connector: {stock.reason}")
    print(f"{'what':{_WIDTH}} {'cpu µs/row':>11} {'krows/s':>9}")
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as place:
        conf = {"spark.ui.enabled": "false", "spark.driver.memory": arguments.driver_memory}
        conf |= {"spark.log.level": "ERROR"}
        if stock.jars:
            conf["spark.jars"] = ",".join(stock.jars)
        spark = session("benchmark", arguments.master, **conf)
        for size, codec in itertools.product(
            map(int, arguments.sizes.split(",")), arguments.codecs.split(",")
        ):
            topic = f"t-{size}-{codec}"
            fill(broker.bootstrap, topic, size, codec, arguments)
            for name, action in work(spark, broker.bootstrap, topic, place).items():
                if "connector" in name and not stock.jars:
                    continue
                action()
                case = f"{size} B, {codec}: {name}"
                found[case] = show(case, arguments.rows, action, broker.pid)
        show_tasks(spark, broker.bootstrap, topic)
        show_memory(broker.pid)
        spark.stop()
    show_avro()
    if arguments.json:
        arguments.json.write_text(json.dumps(found))


def work(
    spark: SparkSession, bootstrap: str, topic: str, place: str
) -> dict[str, Callable[[], object]]:
    """What is measured."""
    parquet = f"{place}/{topic}.parquet"
    tries = itertools.count()

    def read(schema: str | None = None, kind: str = "tidelog", **more: str) -> DataFrame:
        made = spark.read.format(kind).options(subscribe=topic, **more)
        made = made.option("kafka.bootstrap.servers", bootstrap)
        return (made.schema(schema) if schema else made).load()

    def load() -> object:
        kafka = {"bootstrap.servers": bootstrap}
        return jobs.load([topic], f"{place}/{topic}-{next(tries)}", kafka, spark=spark)

    def lengths(frame: DataFrame) -> object:
        return frame.selectExpr("sum(length(value))").first()

    def to_parquet(frame: DataFrame) -> None:
        frame.write.parquet(f"{place}/{topic}-{next(tries)}.parquet")

    read().write.parquet(parquet)
    return {
        "count": lambda: read().count(),
        "count, connector": lambda: read(kind="kafka").count(),
        "count, offsets alone": lambda: read("offset bigint").count(),
        "every value": lambda: lengths(read()),
        "every value, connector": lambda: lengths(read(kind="kafka")),
        "Spark's Parquet": lambda: to_parquet(read()),
        "Spark's Parquet, connector": lambda: to_parquet(read(kind="kafka")),
        "lake": load,
        "every value, from Parquet": lambda: lengths(spark.read.parquet(parquet)),
        "confluent-kafka's loop": lambda: loop(bootstrap, topic),
    }


def loop(bootstrap: str, topic: str) -> int:
    """Every value's length, in one process, message by message."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = {tp.partition: end for tp, (_, end) in admin.watermarks(topic).items()}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "loop"})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
    left, total = sum(ends.values()), 0
    while left:
        for message in consumer.consume(10_000, 1.0):
            total += len(message.value())
            left -= 1
    consumer.close()
    return total


def show_tasks(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """What a task costs that reads next to nothing."""
    took = []
    for tasks in (2, 102):
        made = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        ends = json.dumps({topic: {"0": 102}})
        made = made.options(assign=json.dumps({topic: [0]}), endingOffsets=ends)
        frame = made.option("minPartitions", str(tasks)).load()
        frame.count()
        began = time.monotonic()
        frame.count()
        took.append(time.monotonic() - began)
    print(f"{'a task that reads one record':{_WIDTH}} {(took[1] - took[0]) * 10:11.1f} ms")


def show_memory(broker: int) -> None:
    """The most that each kind of process had."""
    most: dict[str, int] = {}
    for pid in below(os.getpid()) - below(broker):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        if peak and pid != os.getpid():
            most[name] = max(most.get(name, 0), int(peak[0]))
    for name in ("java", "python"):
        found = max((size for each, size in most.items() if each.startswith(name)), default=0)
        print(f"{'peak memory, ' + name:{_WIDTH}} {found / 1024:11.0f} MB")


def show_avro(count: int = 200_000) -> None:
    """A flat record of four fields, framed, on one core."""
    import fastavro
    import pyarrow as pa

    from tidelog.spark.avro import arrow_type
    from tidelog.spark.native_avro import NativeReader, is_there

    kinds = {"item": "string", "member": "long", "price": "double", "place": ["null", "int"]}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "Click", "fields": fields}
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))

    def messages() -> Iterator[bytes]:
        for number in range(count):
            out = io.BytesIO()
            out.write(b"\0\0\0\0\1")
            value = {"item": f"item-{number}", "member": number, "price": number / 3, "place": 1}
            fastavro.schemaless_writer(out, parsed, value)
            yield out.getvalue()

    def one_by_one(data: bytes | None) -> object:
        return fastavro.schemaless_reader(io.BytesIO((data or b"")[5:]), parsed, None)

    values = list(messages())
    batches = [values[start : start + 10_000] for start in range(0, count, 10_000)]
    kind = arrow_type(schema)
    native = NativeReader(schema, kind, lambda id: json.dumps(schema), one_by_one)
    ways: dict[str, Callable[[list[bytes]], object]] = {
        "fastavro": lambda batch: pa.array([one_by_one(each) for each in batch], kind)
    }
    if is_there():
        ways["Polars"] = native.decode
    for name, way in ways.items():
        way(batches[0])
        began = time.process_time()
        for batch in batches:
            assert way(batch) is not None
        spent = time.process_time() - began
        print(f"{'Avro, ' + name:{_WIDTH}} {spent / count * 1e6:11.2f} {count / spent / 1000:9.0f}")


def fill(bootstrap: str, topic: str, size: int, codec: str, arguments: argparse.Namespace) -> None:
    """Values that compress to about a half, as JSON does."""
    dice = random.Random(1)
    values = [(dice.randbytes(size // 4).hex() + "x" * size)[:size].encode() for _ in range(1000)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({topic: arguments.partitions})
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        for number in range(arguments.rows):
            producer.send(topic, values[number % 1000], partition=number % arguments.partitions)


def show(name: str, rows: int, action: Callable[[], object], broker: int) -> dict[str, float]:
    """Print what a row took, and return it."""
    cpu, began = cpu_s(broker), time.monotonic()
    action()
    wall = time.monotonic() - began
    a_row_us = (cpu_s(broker) - cpu) / rows * 1e6
    print(f"{name:{_WIDTH}} {a_row_us:11.2f} {rows / wall / 1000:9.0f}", flush=True)
    return {"rows_per_s": rows / wall, "cpu_us_per_row": a_row_us}


def cpu_s(broker: int) -> float:
    """Of this process and all below it but the broker, with those that have ended."""
    mine = below(os.getpid()) - below(broker)
    spent = [fields[11:15] for pid, fields in _processes().items() if pid in mine]
    return sum(sum(map(int, each)) for each in spent) / _TICK


def below(pid: int) -> set[int]:
    """A process and all that it has started."""
    parents = {each: int(fields[1]) for each, fields in _processes().items()}
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _processes() -> dict[int, list[str]]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(entry.parent.name)] = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main()
