"""One job that uses everything, for any master: `python one_job.py MASTER BOOTSTRAP TOPIC DIRECTORY`.

Prints what it has found as JSON; it must be the same wherever it runs.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

import tidelog
from tidelog import spark as ts
from tidelog.spark import jobs


def job(spark: SparkSession, bootstrap: str, topic: str, directory: str) -> dict[str, Any]:
    """Batch, windows, load, table, and a stream into a topic; `topic` has two partitions, so has `topic-out`."""
    kafka = {"bootstrap.servers": bootstrap}
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    lake, checkpoint, out = f"{directory}/lake", f"{directory}/checkpoint", f"{topic}-out"
    frame = spark.read.format("tidelog").options(**options).load()
    sums = ("count(*) rows", "sum(cast(cast(value as string) as long)) total")
    total = frame.selectExpr(*sums).collect()[0]
    windows = ts.windowed(frame, "10 seconds", by=["partition"], sums=["offset"])
    loaded = jobs.load([topic], lake, kafka, spark=spark, max_offsets_per_commit=1000)
    table = jobs.table(spark, lake)
    before = _count(bootstrap, out)
    stream = spark.readStream.format("tidelog").options(**options)
    stream = stream.options(**ts.stream_options(checkpoint), startingOffsets="earliest")
    writer = stream.load().select("key", "value").writeStream.format("tidelog")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", out)
    batches = jobs.run_stream(writer.option("checkpointLocation", checkpoint))
    return {
        "rows": total.rows,
        "total": total.total,
        "windows": sorted([str(cell) for cell in row] for row in windows.collect()),
        "loaded": [step.rows for step in loaded.steps],
        "table": table.selectExpr("count(*) rows", "sum(offset) offsets").collect()[0].asDict(),
        "streamed": sum(each.rows for each in batches),
        "written": _count(bootstrap, out) - before,
    }


def _count(bootstrap: str, topic: str) -> int:
    found = tidelog.read(topic, bootstrap=bootstrap, isolation="read_committed", columns=["offset"])
    return int(found.num_rows)


if __name__ == "__main__":
    from spark_cluster import CONF

    master, *rest = sys.argv[1:]
    made = ts.session("one job", master, **CONF)
    print(json.dumps(job(made, *rest)))
    made.stop()
