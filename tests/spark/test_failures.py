"""What a person sees of an error: one sentence, with the value and the cure, from Spark's real exceptions."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.spark.failures import reason

Query = Callable[[SparkSession, str, str], Any]


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
    return spark.read.format("tidelog").options(**given).load()


def write(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = spark.range(1).selectExpr("'v' value", "cast(null as string) topic")
    options = {"kafka.bootstrap.servers": bootstrap}
    rows.write.format("tidelog").mode("append").options(**options).save()


def stream(spark: SparkSession, bootstrap: str, topic: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "nowhere"}
    frame = spark.readStream.format("tidelog").options(**given).load()
    frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


def broken(batches: Any) -> Any:
    raise ValueError("a user's own mistake")


CASES: dict[str, tuple[Query, str]] = {
    "unknown topic": (
        lambda spark, bootstrap, topic: read(spark, bootstrap, "nowhere").count(),
        r"topic 'nowhere': there is no such topic",
    ),
    "option": (
        lambda spark, bootstrap, topic: read(spark, bootstrap, topic, startingOffset="x").count(),
        r"startingoffset is not an option of a batch query; startingOffsets is",
    ),
    "lost data": (
        lambda spark, bootstrap, topic: read(
            spark, bootstrap, topic, endingOffsets=f'{{"{topic}": {{"0": 99, "1": 0}}}}'
        ).count(),
        r"data was lost .* With failOnDataLoss=false the query goes on with what there is",
    ),
    "in a task": (write, r"a row has no topic, and there is no option topic"),
    "stream": (stream, r"topic 'nowhere': there is no such topic"),
    "column": (
        lambda spark, bootstrap, topic: read(spark, bootstrap, topic).select("valeu").count(),
        r"A column, .* `valeu` cannot be resolved\. Did you mean .*\]",
    ),
    "syntax": (
        lambda spark, bootstrap, topic: spark.sql("selec 1"),
        r"Syntax error at or near 'selec'.*",
    ),
    "a function of the user's": (
        lambda spark, bootstrap, topic: spark.range(1).mapInArrow(broken, "id long").count(),
        r"ValueError: a user's own mistake",
    ),
}
OURS = ("unknown topic", "option", "lost data", "in a task", "stream")


@pytest.mark.parametrize("name", CASES)
def test_the_sentence_is_found(spark: SparkSession, bootstrap: str, topic: str, name: str) -> None:
    query, sentence = CASES[name]
    with pytest.raises(PySparkException) as raised:
        query(spark, bootstrap, topic)
    assert re.fullmatch(sentence, reason(raised.value)), reason(raised.value)
    if name in OURS:
        shown = str(raised.value).partition("=== Streaming Query ===")[0]
        assert shown.count('File "') <= 4, f"our own calls are of no interest:\n{shown}"
