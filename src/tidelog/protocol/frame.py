"""Whole frames: a four-byte length, a header, a body.

The broker reads requests with `headers.parse_request_header` and `codec.decode`, and answers with
`encode_response`; a client does the reverse with `encode_request` and `decode_response`.
"""

import asyncio
from struct import Struct as Packer
from typing import TypeVar

from tidelog.errors import ProtocolError

from .codec import decode, encode_into, stepwise_encoder
from .headers import encode_request_header, parse_response_header, response_header
from .schema import Request, Response

R = TypeVar("R", bound=Response)

_LENGTH = Packer(">i")
LENGTH_BYTES = _LENGTH.size


def encode_response(response: Response, version: int, correlation_id: int) -> bytearray:
    """The frame that answers a request, its length in front."""
    out = bytearray(LENGTH_BYTES)
    out += response_header(response.api_key, version, correlation_id)
    encode_into(response, version, out)
    return _measured(out)


async def encode_large_response(response: Response, version: int, correlation_id: int) -> bytearray:
    """As `encode_response`; others have their turn while a large answer is laid out."""
    out = bytearray(LENGTH_BYTES)
    out += response_header(response.api_key, version, correlation_id)
    for _ in stepwise_encoder(type(response), version)(response, out):
        await asyncio.sleep(0)
    return _measured(out)


def encode_request(
    request: Request, version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """The frame that carries a request, its length in front."""
    out = bytearray(LENGTH_BYTES)
    encode_request_header(out, type(request), version, correlation_id, client_id)
    encode_into(request, version, out)
    return _measured(out)


def decode_response(
    cls: type[R], frame: bytes | bytearray | memoryview, version: int
) -> tuple[int, R]:
    """The correlation id and the answer in a frame (without its length)."""
    correlation_id, pos = parse_response_header(frame, cls.api_key, version)
    response, stop = decode(cls, frame, pos, version)
    if stop != len(frame):
        raise ProtocolError(f"{len(frame) - stop} bytes after {cls.__name__} v{version}")
    return correlation_id, response


def _measured(out: bytearray) -> bytearray:
    _LENGTH.pack_into(out, 0, len(out) - LENGTH_BYTES)
    return out
