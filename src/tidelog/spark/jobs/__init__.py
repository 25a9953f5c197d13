"""Jobs: `load` topics into a lake's table, and look after it.

    from tidelog.spark import jobs

    jobs.load(["clicks"], "/data/lake", {"bootstrap.servers": "h:9092"}, spark=spark)
    jobs.table(spark, "/data/lake").where("topic = 'clicks'").count()

On the command line they are `tidelog spark load` and so on.  Names are imported when first used.

Absent: Iceberg as a format (see docs/decisions/lake.md).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.spark.jobs.auditing import LakeTier, audit
    from tidelog.spark.jobs.loading import LoadResult, Step, load
    from tidelog.spark.jobs.streaming import Batch, run_stream
    from tidelog.spark.jobs.upkeep import compact, quarantine, replay, status, table

__all__ = [
    "Batch",
    "LakeTier",
    "LoadResult",
    "Step",
    "audit",
    "compact",
    "load",
    "quarantine",
    "replay",
    "run_stream",
    "status",
    "table",
]

_HOMES = {
    "Batch": "streaming",
    "LakeTier": "auditing",
    "LoadResult": "loading",
    "Step": "loading",
    "audit": "auditing",
    "compact": "upkeep",
    "load": "loading",
    "quarantine": "upkeep",
    "replay": "upkeep",
    "run_stream": "streaming",
    "status": "upkeep",
    "table": "upkeep",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
