"""Batches of records in Kafka's format 2: read, build, compress, check."""

from tidelog.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    Record,
    iterate_batches,
    parse_header,
    read_records,
)
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD",
    "BatchHeader",
    "Codec",
    "Record",
    "build_batch",
    "iterate_batches",
    "parse_header",
    "read_records",
]
