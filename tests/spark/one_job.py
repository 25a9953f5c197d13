"""One job that uses everything, for any master: `python one_job.py MASTER BOOTSTRAP TOPIC DIRECTORY`.

Prints what it has found as JSON; it must be the same wherever it runs.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from tidelog import spark as ts
from tidelog.spark import jobs


def job(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> dict[str, Any]:
    """Batch, windows, load, table, and a stream into a topic; `topic` has two partitions, so has `topic-out`."""
    kafka = {"bootstrap.servers": bootstrap}
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    lake, checkpoint, out = f"{directory}/lake", f"{directory}/checkpoint", f"{topic}-out"
    frame = spark.read.format("tidelog").options(**options).load()
    total = frame.selectExpr("sum(cast(cast(value as string) as long)) total").collect()[0].total
    windows = ts.windowed(frame, "10 seconds", by=["partition"], sums=["offset"])
    loaded = jobs.load([topic], lake, kafka, spark=spark, max_offsets_per_commit=700)
    table = jobs.table(spark, lake)
    before = _count(spark, bootstrap, out)
    stream = spark.readStream.format("tidelog").options(**options)
    stream = stream.options(**ts.stream_options(checkpoint), startingOffsets="earliest")
    writer = stream.load().select("key", "value").writeStream.format("tidelog")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", out)
    batches = jobs.run_stream(writer.option("checkpointLocation", checkpoint))
    return {
        "rows": frame.count(),
        "total": total,
        "windows": sorted([str(cell) for cell in row] for row in windows.collect()),
        "loaded": [step.rows for step in loaded.steps],
        "table": table.selectExpr("count(*) rows", "sum(offset) offsets").collect()[0].asDict(),
        "streamed": sum(each.rows for each in batches),
        "written": _count(spark, bootstrap, out) - before,
    }


def _count(spark: SparkSession, bootstrap: str, topic: str) -> int:
    read = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    return (
        read.options(**{"subscribe": topic, "kafka.isolation.level": "read_committed"})
        .load()
        .count()
    )


if __name__ == "__main__":
    from spark_cluster import CONF

    master, *rest = sys.argv[1:]
    made = ts.session("one job", master, **CONF)
    print(json.dumps(job(made, *rest)))
    made.stop()
