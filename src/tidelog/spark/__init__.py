"""Spark reads and writes topics: `format("tidelog")`, jobs that load them into a lake, and what they share.

    from tidelog import spark as ts

    spark = ts.session("clicks")
    spark.read.format("tidelog").option("kafka.bootstrap.servers", "h:9092").option("subscribe", "clicks").load()

Needs `pip install 'tidelog[spark]'`, on the executors too.  Names are imported when first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.spark.avro import from_avro, to_avro
    from tidelog.spark.results import to_table, to_topic
    from tidelog.spark.sessions import register, session, stream_options
    from tidelog.spark.windows import fields, join_streams, join_table, latest, windowed

__all__ = [
    "fields",
    "from_avro",
    "join_streams",
    "join_table",
    "latest",
    "register",
    "session",
    "stream_options",
    "to_avro",
    "to_table",
    "to_topic",
    "windowed",
]

_HOMES = {
    "fields": "windows",
    "from_avro": "avro",
    "join_streams": "windows",
    "join_table": "windows",
    "latest": "windows",
    "register": "sessions",
    "session": "sessions",
    "stream_options": "sessions",
    "to_avro": "avro",
    "to_table": "results",
    "to_topic": "results",
    "windowed": "windows",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ImportError("tidelog.spark needs Spark: pip install 'tidelog[spark]'") from None
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
