"""How much is measured: the sizes of every line, by name.

`full` is what the paper and the issue of this suite ask for and takes hours; `medium` is what `make bench` runs; `small` fits into
a coffee break and is still interleaved; `quick` is for daily use, with tidelog alone.  `smoke` shows that everything runs, and
its figures mean nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """What has a default is left out of a scale that does not name it."""

    name: str
    rounds: int
    warm_up_messages: int
    """Of 200 bytes, one by one and in batches, before anything is measured: a JVM compiles what is hot."""
    seconds: float
    """Of each run of the raw load generator."""
    messages: int
    """Of the paper's experiment, in batches of 50 and when consuming."""
    messages_alone: int
    """The same, one a batch; also for systems that have no batches."""
    produce_mb: int
    """Of each run of librdkafka's producer in the produce line."""
    fetch_mb: int
    latency_s: float
    history_gb: tuple[float, ...] = ()
    partitions: tuple[int, ...] = ()
    backlog_gb: float = 0
    connections: int = 0
    """Idle connections, for the memory that they cost."""
    client_seconds: float = 0
    spark_rows: int = 0
    """Of the one run with Spark."""
    thorough: bool = False
    """Whether every combination is run, or the chosen few."""


SCALES = {
    each.name: each
    for each in (
        Scale(
            name="smoke",
            rounds=1,
            warm_up_messages=1000,
            seconds=0.2,
            messages=20_000,
            messages_alone=5000,
            produce_mb=10,
            fetch_mb=20,
            latency_s=0.5,
            history_gb=(0.02, 0.04),
            partitions=(10, 20),
            backlog_gb=0.05,
            connections=20,
            client_seconds=0.05,
        ),
        Scale(
            name="quick",
            rounds=5,
            warm_up_messages=10_000,
            seconds=0.4,
            messages=200_000,
            messages_alone=30_000,
            produce_mb=60,
            fetch_mb=100,
            latency_s=1.0,
        ),
        Scale(
            name="small",
            rounds=3,
            warm_up_messages=30_000,
            seconds=0.7,
            messages=500_000,
            messages_alone=50_000,
            produce_mb=200,
            fetch_mb=300,
            latency_s=1.5,
            backlog_gb=0.3,
            connections=500,
            client_seconds=0.4,
        ),
        Scale(
            name="medium",
            rounds=3,
            warm_up_messages=100_000,
            seconds=1.0,
            messages=2_000_000,
            messages_alone=100_000,
            produce_mb=300,
            fetch_mb=600,
            latency_s=3.0,
            history_gb=(1.0, 10.0),
            partitions=(10, 1000),
            backlog_gb=1.0,
            connections=1000,
            client_seconds=0.5,
            spark_rows=300_000,
            thorough=True,
        ),
        Scale(
            name="full",
            rounds=5,
            warm_up_messages=500_000,
            seconds=5.0,
            messages=10_000_000,
            messages_alone=10_000_000,
            produce_mb=2000,
            fetch_mb=4000,
            latency_s=30.0,
            history_gb=(1.0, 10.0, 50.0),
            partitions=(10, 1000, 10_000),
            backlog_gb=10.0,
            connections=1000,
            client_seconds=5.0,
            spark_rows=2_000_000,
            thorough=True,
        ),
    )
}
