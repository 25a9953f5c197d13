"""The formats of a lake, which one a directory has, and what a path may be."""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

from tidelog.errors import SettingsError
from tidelog.spark.lake import Lake
from tidelog.spark.parquet_lake import ParquetLake

AnyLake = Lake | ParquetLake
FORMATS: dict[str, type[Lake] | type[ParquetLake]] = {"delta": Lake, "parquet": ParquetLake}


def open_lake(path: str, format: str | None = None) -> AnyLake:
    """The table in a directory; a new one is Delta unless told."""
    if format is not None and format not in FORMATS:
        raise SettingsError(f"format={format!r} must be one of {', '.join(FORMATS)}")
    path = local_path(path)
    there = _found(path)
    if there and format and there != format:
        raise SettingsError(f"{path} is a table of the format {there}, not {format}")
    return FORMATS[there or format or "delta"](path)


def local_path(text: str) -> str:
    """A directory that driver and tasks see, by its path or as `file:`; anything else is refused instead of made here.

    The path is whole: tasks may run in another working directory.
    """
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text):
        return os.path.abspath(text)
    parsed = urlparse(text)
    if parsed.scheme.lower() != "file" or parsed.netloc not in ("", "localhost"):
        raise SettingsError(
            f"{text}: tables and checkpoints must be in a directory that the driver and all executors see, by its path "
            f"or as file:///path; {parsed.scheme}: is not supported"
        )
    return unquote(parsed.path)


def _found(path: str) -> str | None:
    if (Path(path) / "_delta_log").is_dir():
        return "delta"
    return "parquet" if (Path(path) / "_tidelog").is_dir() else None
