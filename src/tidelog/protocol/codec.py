"""Encode and decode messages.

    body = encode(HeartbeatResponse(), version=4)
    request, pos = decode(HeartbeatRequest, frame, header.body_pos, version=4)

The code for a message and a version is generated when first asked for: nothing is interpreted per message.
Headers and frames are in `headers.py` and `frame.py`.
"""

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

from tidelog.errors import ProtocolError

from .schema import Message

M = TypeVar("M", bound=Message)


def encode(message: Message, version: int) -> bytearray:
    """The bytes of `message` in the layout of `version`, without a header."""
    out = bytearray()
    encoder(type(message), version)(message, out)
    return out


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append `message` in the layout of `version` to `out`."""
    encoder(type(message), version)(message, out)


def decode(
    cls: type[M], buf: bytes | bytearray | memoryview, pos: int, version: int
) -> tuple[M, int]:
    """Read a `cls` at `pos`; return it and the position after it.

    Whatever the bytes are, nothing but ProtocolError is raised.  Fields of type `batches` are slices of `buf`.
    """
    try:
        made: tuple[M, int] = decoder(cls, version)(buf, pos)
    except (IndexError, struct.error) as error:
        raise ProtocolError(f"{cls.__name__} v{version} ends too early") from error
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{cls.__name__} v{version} holds text that is not UTF-8") from error
    except ProtocolError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: {error}") from None
    return made


@cache
def encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    """The function that writes a `cls` in `version`, generated on first use."""
    from .encoder import compile_encoder

    return compile_encoder(cls, _checked(cls, version), version in cls.flexible)


@cache
def stepwise_encoder(
    cls: type[Message], version: int
) -> Callable[[Any, bytearray], Iterator[None]]:
    """As `encoder`, a generator that stops every so often, for answers that may be very large."""
    from .encoder import compile_stepwise_encoder

    return compile_stepwise_encoder(cls, _checked(cls, version), version in cls.flexible)


@cache
def decoder(cls: type[Message], version: int) -> Callable[[Any, int], tuple[Any, int]]:
    """The function that reads a `cls` in `version`, generated on first use."""
    from .decoder import compile_decoder

    return compile_decoder(cls, _checked(cls, version), version in cls.flexible)


def _checked(cls: type[Message], version: int) -> int:
    if version not in cls.versions:
        raise ValueError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return version
