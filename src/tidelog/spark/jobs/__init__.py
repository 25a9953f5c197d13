"""Jobs: `load` topics into a lake's table, and look after it.

    from tidelog.spark import jobs

    jobs.load(["clicks"], "/data/lake", {"bootstrap.servers": "h:9092"}, spark=spark)
    jobs.table(spark, "/data/lake").where("topic = 'clicks'").count()

On the command line they are `tidelog spark load` and so on.  Names are imported when first used.

Absent: `windows` and `join` as jobs (the guide has them as queries), `audit`, plain Parquet and Iceberg as formats.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.spark.jobs.loading import LoadResult, Step, load
    from tidelog.spark.jobs.upkeep import compact, quarantine, replay, status, table

__all__ = ["LoadResult", "Step", "compact", "load", "quarantine", "replay", "status", "table"]

_HOMES = {
    "LoadResult": "loading",
    "Step": "loading",
    "compact": "upkeep",
    "load": "loading",
    "quarantine": "upkeep",
    "replay": "upkeep",
    "status": "upkeep",
    "table": "upkeep",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
