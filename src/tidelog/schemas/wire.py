"""Confluent's wire format.

0        1            5
+--------+------------+---------------- - -
| 0      | schema id  | the message itself
+--------+------------+---------------- - -
  magic    big-endian
"""

from struct import Struct

from tidelog.schemas.errors import NotInWireFormat

MAGIC = 0
HEADER = Struct(">BI")
HEADER_BYTES = HEADER.size


def header(id: int) -> bytes:
    """What stands before a message of this schema."""
    return HEADER.pack(MAGIC, id)


def schema_id(data: bytes) -> int:
    """The id that a message carries."""
    if len(data) < HEADER_BYTES:
        raise NotInWireFormat(
            f"{len(data)} bytes are too few for a magic 0 and a schema id; was this written with a serializer?"
        )
    magic, id = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise NotInWireFormat(
            f"the message begins with {magic}, not with 0; was it written with a schema serializer?"
        )
    return int(id)
