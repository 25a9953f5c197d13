"""Where the rows of a stream go: into a topic, or into a Delta table that has each micro-batch once.

    query = to_topic(frame, "counts", kafka, checkpoint).start()
    query = to_table(frame, "/data/counts", checkpoint).start()

The table is made from the rows' columns.  A micro-batch is one commit, with its number in it as a `txn`; a batch that is done again after a crash is
recognised.  Its rows are gathered on the driver: this is for results, which are few, not for what they are made of.

Rows in a topic are JSON objects; the columns that are named `key` make the key.
"""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tidelog.errors import SettingsError, TidelogError
from tidelog.spark.lakes import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def to_topic(
    frame: "DataFrame",
    topic: str,
    kafka: Mapping[str, str],
    checkpoint: str,
    *,
    key: Sequence[str] = (),
    mode: str = "append",
) -> "DataStreamWriter":
    """A writer whose query puts each row into a topic; with mode "update" also rows that are not final, again and again."""
    value = F.to_json(F.struct(*frame.columns)).alias("value")
    named = F.to_json(F.struct(*key)) if key else F.lit(None).cast("string")
    options = {f"kafka.{name}": text for name, text in kafka.items()}
    rows = frame.select(named.alias("key"), value)
    if mode == "append":
        writer = rows.writeStream.format("tidelog").options(**options, topic=topic)
    else:
        # Spark lets a Python sink only append.
        options |= {"topic": topic, "sinkId": stream_id(checkpoint)}

        def write(batch: "DataFrame", number: int) -> None:
            made = batch.write.format("tidelog").mode("append").options(**options)
            made.option("batchId", str(number)).save()

        writer = rows.writeStream.foreachBatch(write)
    return writer.outputMode(mode).option("checkpointLocation", checkpoint)


def to_table(frame: "DataFrame", path: str, checkpoint: str) -> "DataStreamWriter":
    """A writer whose query appends each finished row to a table; columns that come later are added to it."""
    path = local_path(path)
    sink = stream_id(checkpoint)

    def commit(rows: "DataFrame", batch: int) -> None:
        append_batch(path, rows.toArrow(), sink, batch)

    writer = frame.writeStream.foreachBatch(commit).outputMode("append")
    return writer.option("checkpointLocation", checkpoint)


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """A Delta table as a frame, without a jar."""
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType

    path = local_path(path)
    if not DeltaTable.is_deltatable(path):
        raise SettingsError(f"there is no table at {path}")
    found = DeltaTable(path)
    schema: Any = StructType.fromJson(json.loads(found.schema().to_json()))
    files = found.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", path).parquet(*files)


def append_batch(path: str, rows: Any, sink: str, batch: int) -> bool:
    """Append one micro-batch unless the table has it; says whether it did."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import DeltaError

    if DeltaTable.is_deltatable(path):
        done = DeltaTable(path).transaction_version(sink)
        if done is not None and done >= batch:
            return False
    elif Path(path).is_dir() and any(Path(path).iterdir()):
        raise SettingsError(f"{path} is not empty and not a Delta table; name another directory")
    if not rows.num_rows:
        return False
    properties = CommitProperties(app_transactions=[Transaction(sink, batch)])
    try:
        write_deltalake(
            path, rows, mode="append", schema_mode="merge", commit_properties=properties
        )
    except DeltaError as error:
        raise TidelogError(f"{path}: {error}") from None
    return True


def stream_id(checkpoint: str) -> str:
    """The name of a stream, which is kept with its checkpoint: without that it begins anew, and is another."""
    place = Path(local_path(checkpoint)) / "tidelog-stream.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        mine = place.with_name(f".{place.name}.{uuid.uuid4()}")
        mine.write_text(json.dumps({"id": f"stream:{uuid.uuid4()}"}))
        try:
            os.link(mine, place)
        except FileExistsError:
            pass  # another was faster; it is the same stream
        finally:
            mine.unlink()
    return str(json.loads(place.read_text())["id"])
