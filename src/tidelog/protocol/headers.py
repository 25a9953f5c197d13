"""Request and response headers.

    request   api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string | tags (flexible)
    response  correlation_id int32 | tags (flexible, but never for ApiVersions)

The client id keeps its two-byte length even in the flexible header (KIP-482).  The answer to ApiVersions has
the old header in every version, since the client cannot know yet what the broker speaks (KIP-511).
"""

from functools import cache
from struct import Struct as Packer
from struct import error as struct_error
from typing import NamedTuple

from tidelog.errors import ProtocolError
from tidelog.kernel import read_uvarint, write_uvarint

from .messages import request_for
from .schema import Request

_FIXED = Packer(">hhih")
_INT32 = Packer(">i")
_API_VERSIONS = 18
_MOST_TAGS = 1_000
"""Of a header: none is known yet, and skipping them takes its time."""


class RequestHeader(NamedTuple):
    """What a request says of itself; its body starts at `body_pos` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_pos: int


def parse_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    """Read the header of a request frame (without its length prefix).

    An API that we do not know, or a version, is not an error here: the caller decides what is offered.
    """
    try:
        api_key, api_version, correlation_id, size = _FIXED.unpack_from(frame, 0)
    except struct_error as error:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header") from error
    pos = _FIXED.size
    client_id = None
    if size >= 0:
        if size > len(frame) - pos:
            raise ProtocolError(f"a client id of {size} bytes with {len(frame) - pos} left")
        try:
            client_id = str(frame[pos : pos + size], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError("the client id is not UTF-8") from error
        pos += size
    elif size != -1:
        raise ProtocolError(f"a client id of {size} bytes")
    if api_version >= _first_flexible(api_key):
        pos = _skip_tags(frame, pos)
    return RequestHeader(api_key, api_version, correlation_id, client_id, pos)


def encode_request_header(
    out: bytearray,
    request: type[Request],
    version: int,
    correlation_id: int,
    client_id: str | None,
) -> None:
    """Append the header of a request."""
    raw = None if client_id is None else client_id.encode()
    size = -1 if raw is None else len(raw)
    out += _FIXED.pack(request.api_key, version, correlation_id, size)
    out += raw or b""
    if version in request.flexible:
        write_uvarint(out, 0)


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header of the answer to a request of `api_key` in `version`."""
    head = _INT32.pack(correlation_id)
    return head + b"\0" if has_response_tags(api_key, version) else head


def parse_response_header(
    frame: bytes | bytearray | memoryview, api_key: int, version: int
) -> tuple[int, int]:
    """The correlation id of an answer, and where its body starts."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
    except struct_error as error:
        raise ProtocolError(f"a response of {len(frame)} bytes has no header") from error
    pos = _INT32.size
    return correlation_id, _skip_tags(frame, pos) if has_response_tags(api_key, version) else pos


def has_response_tags(api_key: int, version: int) -> bool:
    """Whether the header of the answer ends in tagged fields."""
    return api_key != _API_VERSIONS and version >= _first_flexible(api_key)


@cache
def _first_flexible(api_key: int) -> int:
    """The first flexible version of an API; past all versions if it has none or is not known."""
    request = request_for(api_key)
    if request is None or request.flexible.first > request.flexible.last:
        return 1 << 16
    return request.flexible.first


def _skip_tags(frame: bytes | bytearray | memoryview, pos: int) -> int:
    count, pos = read_uvarint(frame, pos)
    if count > _MOST_TAGS:
        raise ProtocolError(f"{count} tags in a header, more than {_MOST_TAGS}")
    for _ in range(count):
        _, pos = read_uvarint(frame, pos)
        size, pos = read_uvarint(frame, pos)
        pos += size
        if pos > len(frame):
            raise ProtocolError("a tag of the header ends after the frame")
    return pos
