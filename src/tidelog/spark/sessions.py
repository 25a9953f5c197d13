"""A Spark session that is set up for tidelog, and what a stream needs beside its source.

spark = session("clicks", master="local[2]")
stream = spark.readStream.format("tidelog").options(**stream_options(checkpoint, group="clicks-to-lake")) …
query = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
"""

import os
import re
import sys

from pyspark.sql import SparkSession

_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # The only value with which the way from Spark to Python does not measure each row, ten times the cost of the rest.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}


def session(name: str, master: str | None = None, **conf: str) -> SparkSession:
    """The session of this process; `conf` has Spark's names: `session("x", **{"spark.executor.cores": "4"})`.

    `master` is Spark's, or the address of a Spark Connect server: `sc://host:15002`.
    """
    # Spark's workers would run the python3 that is first in the PATH, which need not have our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    remote = (master or "").startswith("sc://")
    if master:
        builder = builder.remote(master) if remote else builder.master(master)
    for key, value in {**_CONF, **_shuffles(master), **conf}.items():
        # The server's own settings are not a client's to choose.
        if not remote or key.startswith("spark.sql."):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def _shuffles(master: str | None) -> dict[str, str]:
    """On one machine as many tasks after a shuffle as it has cores.

    Spark makes two hundred, and in a stream with windows or joins each of them writes its state in each micro-batch.
    """
    local = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master or "")
    if local is None:
        return {}
    cores = {None: 1, "*": os.cpu_count() or 1}.get(local[1]) or int(local[1])
    return {"spark.sql.shuffle.partitions": str(max(2, cores))}


def register(spark: SparkSession) -> None:
    """Make `format("tidelog")` known to a session that does not find `pyspark_tidelog` by itself, which is installed with tidelog."""
    from tidelog.spark.source import TidelogDataSource

    spark.dataSource.register(TidelogDataSource)


def stream_options(checkpoint: str, group: str | None = None) -> dict[str, str]:
    """The options that make a stream safe to kill in its first batch, and its progress visible to a group."""
    options = {"initialOffsetsLocation": f"{checkpoint.rstrip('/')}/tidelog-initial-offsets.json"}
    return options | ({"groupId": group} if group else {})
