"""The hot loops, and only those: checksums, varints, batches, records, drafts, columns, request bodies, index search.

Every module here is ordinary Python with a `.pxd` beside it.  With a C compiler at build time the pair
becomes an extension module; without one, or with `TIDELOG_PURE=1`, the very same `.py` file is imported.
`primitives` is the one exception: its few readers exist in Python and, in its `.pxd` and header, in C.

All functions take any contiguous bytes-like object, check every length against what is left, and raise only
`ProtocolError`, `CorruptMessage` or `InvalidRecord` for bytes that are wrong.  No I/O, no behaviour,
and no state but that of a batch which is being written (`drafts`).
"""

import os
import sys

if os.environ.get("TIDELOG_PURE", "") not in ("", "0"):
    from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader

    class _SourcesOnly:
        """Finds this package's modules as sources, although an extension lies beside them."""

        finder = FileFinder(os.path.dirname(__file__), (SourceFileLoader, SOURCE_SUFFIXES))

        @classmethod
        def find_spec(
            cls, name: str, path: object = None, target: object = None
        ) -> ModuleSpec | None:
            return cls.finder.find_spec(name) if name.startswith("tidelog.kernel.") else None

    sys.meta_path.insert(0, _SourcesOnly)

from tidelog.kernel import batches as _batches
from tidelog.kernel.arrow import batch_places, decode_columns
from tidelog.kernel.batches import check_batch, scan_batches, skip_batches, stamp_batch
from tidelog.kernel.checksum import crc32c
from tidelog.kernel.drafts import Delivery, Draft, Drafts
from tidelog.kernel.hashing import murmur2
from tidelog.kernel.indexes import find_floor
from tidelog.kernel.records import (
    decode_messages,
    decode_records,
    encode_records,
    latest_time,
    refused_times,
    times_outside,
    without_key,
)
from tidelog.kernel.requests import decode_fetch, decode_produce
from tidelog.kernel.runs import scan_produces
from tidelog.kernel.varints import read_uvarint, read_varint, write_uvarint, write_varint

COMPILED: bool = not str(_batches.__file__).endswith(".py")
"""Whether the extension modules are in use."""

__all__ = [
    "COMPILED",
    "Delivery",
    "Draft",
    "Drafts",
    "batch_places",
    "check_batch",
    "crc32c",
    "decode_columns",
    "decode_fetch",
    "decode_messages",
    "decode_produce",
    "decode_records",
    "encode_records",
    "find_floor",
    "latest_time",
    "murmur2",
    "read_uvarint",
    "read_varint",
    "refused_times",
    "scan_batches",
    "scan_produces",
    "skip_batches",
    "stamp_batch",
    "times_outside",
    "without_key",
    "write_uvarint",
    "write_varint",
]
