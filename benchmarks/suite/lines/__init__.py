"""What is measured, a file each.  A line has a `NAME`, a `TITLE`, tells whom it `suits` and does its work in `run`."""

from types import ModuleType

from suite.lines import (
    backlog,
    clients,
    fetch,
    footprint,
    growth,
    latency,
    paper,
    produce,
    replication,
    spark,
)

ALL: tuple[ModuleType, ...] = (
    footprint,
    paper,
    produce,
    fetch,
    latency,
    backlog,
    clients,
    replication,
    spark,
    growth,
)
"""In the order in which they are run: footprint needs a system that nobody has used yet, growth leaves a full disk."""
