"""What makes `format("tidelog")` work in Spark without a word: Spark looks for packages named `pyspark_*` with a `DefaultSource`."""

from tidelog.spark.source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
