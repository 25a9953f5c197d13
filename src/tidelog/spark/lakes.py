"""The formats of a lake, and which one a directory has."""

from pathlib import Path

from tidelog.errors import SettingsError
from tidelog.spark.lake import Lake
from tidelog.spark.parquet_lake import ParquetLake

AnyLake = Lake | ParquetLake
FORMATS: dict[str, type[Lake] | type[ParquetLake]] = {"delta": Lake, "parquet": ParquetLake}


def open_lake(path: str, format: str | None = None) -> AnyLake:
    """The table in a directory; a new one is Delta unless told."""
    if format is not None and format not in FORMATS:
        raise SettingsError(f"format={format!r} must be one of {', '.join(FORMATS)}")
    there = _found(path)
    if there and format and there != format:
        raise SettingsError(f"{path} is a table of the format {there}, not {format}")
    return FORMATS[there or format or "delta"](path)


def _found(path: str) -> str | None:
    if (Path(path) / "_delta_log").is_dir():
        return "delta"
    return "parquet" if (Path(path) / "_tidelog").is_dir() else None
