"""Random requests, and ways to spoil their bytes."""

import random
import struct
from typing import Any
from uuid import UUID

from tidelog.protocol.schema import Field, Struct, element_of, struct_of, wire_of
from tidelog.records.batch import HEADER_BYTES
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec

NAMES = (
    "fuzz",
    "fuzz",
    "fuzz",
    "other",
    "",
    "..",
    "a/b",
    "x" * 300,
    "größe",
    "\0",
    "__consumer_offsets",
)
INTEGERS = (0, 0, 1, 1, 2, -1, -2, 100, 127)
EXTREMES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}

# A wait that a client asks for is not a stuck connection, and a topic of a million partitions that it asks for
# is not our mistake: these stay small.
SMALL = {
    "max_wait_ms": (0, 1),
    "timeout_ms": (0, 1, 100),
    "session_timeout_ms": (6000,),
    "rebalance_timeout_ms": (0, 1),
    "num_partitions": (-1, 0, 1, 2),
    "count": (0, 1, 2),
    "replication_factor": (-1, 1, 2),
}


def random_instance(choose: random.Random, cls: type[Struct], version: int) -> Any:
    """An instance whose fields are plausible, or at the edge of what they may hold."""
    values = {
        name: _value(choose, name, field, version)
        for name, field in cls.__fields__.items()
        if version in field.versions
    }
    return cls(**values)


def _value(choose: random.Random, name: str, field: Field, version: int) -> Any:
    if version in field.nullable and choose.random() < 0.2:
        return None
    element = element_of(field.hint)
    if element is not None:
        return [_one(choose, name, element, version) for _ in range(choose.choice((0, 1, 1, 2, 3)))]
    return _one(choose, name, field.hint, version)


def _one(choose: random.Random, name: str, hint: Any, version: int) -> Any:
    inner = struct_of(hint)
    if inner is not None:
        return random_instance(choose, inner, version)
    wire = wire_of(hint)
    assert wire is not None
    kind = wire.name
    if kind == "bool":
        return choose.random() < 0.5
    if kind in EXTREMES or kind == "uint16":
        if name in SMALL:
            return choose.choice(SMALL[name])
        if kind in EXTREMES and choose.random() < 0.1:
            return choose.choice((-(1 << EXTREMES[kind]), (1 << EXTREMES[kind]) - 1))
        value = choose.choice(INTEGERS)
        return abs(value) if kind == "uint16" else value
    if kind == "float64":
        return choose.choice((0.0, -1.0, 1e300))
    if kind == "uuid":
        return UUID(int=choose.choice((0, 1, choose.getrandbits(128))))
    if kind == "string":
        return choose.choice(NAMES)
    if kind == "bytes":
        return choose.randbytes(choose.choice((0, 1, 40)))
    assert kind == "records", kind
    return random_batch(choose)


def random_batch(choose: random.Random) -> bytearray:
    """A batch, mostly sound, sometimes spoilt or missing."""
    rows = [
        (1_700_000_000_000 + n, b"k%d" % n, choose.randbytes(20), [("h", b"v")])
        for n in range(choose.choice((1, 2, 10)))
    ]
    batch = build_batch(rows, codec=choose.choice(list(Codec)))
    for _ in range(choose.choice((0, 0, 1, 3))):
        batch[choose.randrange(len(batch))] = choose.randrange(256)
    if choose.random() < 0.1:
        del batch[choose.randrange(HEADER_BYTES) :]
    return batch


def spoilt(choose: random.Random, body: bytes | bytearray) -> bytearray:
    """The body of a frame after its fixed header, changed in a few places or cut or stretched."""
    out = bytearray(body)
    for _ in range(choose.choice((1, 1, 2, 5))):
        if not out:
            return out
        place = choose.randrange(len(out))
        match choose.randrange(7):
            case 0:
                out[place] = choose.randrange(256)
            case 1:
                out[place] ^= 1 << choose.randrange(8)
            case 2:
                del out[place:]
            case 3:
                out[place:place] = choose.randbytes(choose.choice((1, 4, 100)))
            case 4:
                del out[place : place + choose.choice((1, 2, 8))]
            case 5:  # a length that lies
                lie = choose.choice((-1, -2, 0x7FFFFFFF, -0x80000000, 0xFFFF, len(out)))
                out[place : place + 4] = struct.pack(">i", lie)
            case 6:  # a variable length that lies, or never ends
                out[place : place + 5] = choose.choice((b"\xff\xff\xff\xff\x07", b"\xff" * 12))
    return out
