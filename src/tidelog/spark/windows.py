"""Counts by window, and joins: of a stream with a table, of two streams in time; each a function on frames.

    events = fields(stream, "item string, price double")
    windowed(events, "5 minutes", by=["item"], sums=["price"], late="2 minutes")
    join_table(events, latest(spark, "items", kafka, "item string, name string"), "item")
    join_streams(impressions, clicks, "item", within="30 minutes", late="2 minutes")

They are Spark's own operators, put together as they are needed most.  A frame has a column with a time, `timestamp` unless told.  All work
on batches too, where nothing is late.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidelog.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIME = "timestamp"
LATE = "10 minutes"


def fields(frame: "DataFrame", schema: str) -> "DataFrame":
    """The fields of JSON values as columns, beside the record's key (as text) and time; what is no JSON has nulls.

    Values with a schema id of a registry in front are taken as well: no JSON begins with a zero.
    """
    text = F.expr("if(startswith(value, x'00'), substring(value, 6), value)").cast("string")
    parsed = frame.select(
        F.col("key").cast("string").alias("key"),
        TIME,
        F.from_json(text, schema).alias("fields"),
    )
    # A field of the same name goes before the record's own.
    inside = set(parsed.select("fields.*").columns)
    return parsed.select(*(name for name in ("key", TIME) if name not in inside), "fields.*")


def windowed(
    frame: "DataFrame",
    window: str,
    *,
    slide: str | None = None,
    session: bool = False,
    by: Sequence[str] = (),
    sums: Sequence[str] = (),
    time: str = TIME,
    late: str = LATE,
) -> "DataFrame":
    """Counts, and sums of columns, by key and window: `window_start`, `window_end`, the keys, `count`, `sum_…`.

    Windows follow each other, or overlap with a `slide`; with `session` a window ends when nothing came for so long as `window`.  In a
    stream a window is forgotten when events are `late` after its end; what comes later is left out.
    """
    if session and slide:
        raise SettingsError(f"slide={slide!r}: windows of sessions do not slide")
    for name in (time, *by, *sums):
        if name not in frame.columns:
            raise SettingsError(
                f"there is no column {name!r}; there are {', '.join(frame.columns)}"
            )
    cut: Column = F.session_window(time, window) if session else F.window(time, window, slide)
    totals = [F.sum(name).alias(f"sum_{name}") for name in sums]
    grouped = _watermarked(frame, time, late).groupBy(cut.alias("window"), *by)
    return grouped.agg(F.count("*").alias("count"), *totals).select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *by,
        "count",
        *(f"sum_{name}" for name in sums),
    )


def latest(
    spark: "SparkSession", topic: str, kafka: Mapping[str, str], schema: str | None = None
) -> "DataFrame":
    """A compacted topic as a table: the last value of each key; keys whose last value is null are gone.

    With a `schema` the fields of JSON values are columns.  A stream that is joined with it reads it anew for each micro-batch.
    """
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    options |= {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    newest = F.max_by(
        F.struct("value", TIME), F.struct("offset")
    )  # a key is in one partition, where offsets tell the order
    rows = (
        spark.read.format("tidelog")
        .options(**options)
        .load()
        .groupBy("key")
        .agg(newest.alias("newest"))
    )
    kept = rows.where("newest.value is not null").select("key", "newest.*")
    return kept if schema is None else fields(kept, schema)


def join_table(
    frame: "DataFrame", table: "DataFrame", on: str | Sequence[str], *, how: str = "left"
) -> "DataFrame":
    """Each row with what a table knows of it; columns that both have are the frame's."""
    keys = _keys(on, frame, table)
    if how not in ("left", "inner"):
        raise SettingsError(f"how={how!r} must be left or inner")
    theirs = [name for name in table.columns if name in keys or name not in frame.columns]
    return frame.join(table.select(*theirs), keys, how)


def join_streams(
    left: "DataFrame",
    right: "DataFrame",
    on: str | Sequence[str],
    *,
    within: str,
    how: str = "inner",
    time: str = TIME,
    late: str = LATE,
) -> "DataFrame":
    """Each row of `left` with the rows of `right` that came `within` so long after it; what both have is `right_…` of the latter.

    With `how="left"` rows that found none come as well, when nothing can come any more.
    """
    keys = _keys(on, left, right)
    if how not in ("left", "inner"):
        raise SettingsError(f"how={how!r} must be left or inner")
    here = _watermarked(left, time, late)
    there = _watermarked(right, time, late)
    names = {name: f"right_{name}" if name in left.columns else name for name in right.columns}
    there = there.withColumnsRenamed(names)
    after = F.col(names[time])
    condition = (after >= F.col(time)) & (after <= F.col(time) + F.expr(f"interval {within}"))
    for key in keys:
        condition = condition & (F.col(key) == F.col(names[key]))
    return here.join(there, condition, how).drop(*(names[key] for key in keys))


def _watermarked(frame: "DataFrame", time: str, late: str) -> "DataFrame":
    return frame.withWatermark(time, late) if frame.isStreaming else frame


def _keys(on: str | Sequence[str], left: "DataFrame", right: "DataFrame") -> list[str]:
    keys = [on] if isinstance(on, str) else list(on)
    if not keys:
        raise SettingsError("a join needs a column that both have")
    for key in keys:
        for side, frame in (("left", left), ("right", right)):
            if key not in frame.columns:
                raise SettingsError(
                    f"the {side} has no column {key!r}; it has {', '.join(frame.columns)}"
                )
    return keys
