"""Writes into an answer that is encoded already for how long its client is held, and reads what it says.

Answers that tell of a delay are few, because the client is held then: so they are decoded and encoded again, whatever
their layout.  Only those of fetches, whose records lie in files, are patched in place.
"""

from collections.abc import Callable
from struct import Struct as Packer

from tidelog.broker.dispatch import Handler
from tidelog.network.answer import Answer, Deferred, Ready
from tidelog.protocol.frame import LENGTH_BYTES, decode_response, encode_response

_FIELD = "throttle_time_ms"
_INT32 = Packer(">i")
_FETCH = 1


def tell(handler: Handler, version: int, answer: Answer, left_ms: Callable[[], int]) -> Answer:
    """The answer, which says for how long the client is held when it is sent."""
    if isinstance(answer, Deferred):
        later = Deferred(pipelined=answer.pipelined)

        def resolve(ready: Ready | Exception) -> None:
            if not isinstance(ready, Exception):
                ready = _told(handler, version, ready, left_ms())
            later.resolve(ready)

        answer.then(resolve)
        return later
    if answer is None or isinstance(answer, bytes | bytearray | list | tuple):
        return _told(handler, version, answer, left_ms())
    raise TypeError(f"{answer!r} is not an answer yet")


def tell_last(handler: Handler, version: int, answers: bytes, throttle_ms: int) -> bytes:
    """Several answers back to back, of which the last says for how long the client is held."""
    pos = stop = 0
    while stop < len(answers):
        pos, stop = stop, stop + LENGTH_BYTES + _INT32.unpack_from(answers, stop)[0]
    last = _told(handler, version, answers[pos:], throttle_ms)
    assert isinstance(last, bytes | bytearray)
    return answers[:pos] + last


def throttle_time(handler: Handler, version: int, ready: Ready) -> int:
    """What an answer says already, in milliseconds."""
    if not _has_field(handler, version) or not isinstance(ready, bytes | bytearray):
        return 0
    _, response = decode_response(handler.request.response, ready[LENGTH_BYTES:], version)
    return int(getattr(response, _FIELD))


def _told(handler: Handler, version: int, ready: Ready, throttle_ms: int) -> Ready:
    if not _has_field(handler, version) or throttle_ms <= 0:
        return ready
    if isinstance(ready, bytes | bytearray):
        response_type = handler.request.response
        correlation_id, response = decode_response(response_type, ready[LENGTH_BYTES:], version)
        setattr(response, _FIELD, throttle_ms)
        return encode_response(response, version, correlation_id)
    if ready is not None and handler.api_key == _FETCH and isinstance(ready[0], bytearray):
        # | length | correlation id | tags (flexible) | throttle time |
        _INT32.pack_into(ready[0], 9 if handler.flexible_from <= version else 8, throttle_ms)
    return ready


def _has_field(handler: Handler, version: int) -> bool:
    field = handler.request.response.__fields__.get(_FIELD)
    # An ApiVersions from the future is answered in version 0.
    return field is not None and version in field.versions and version in handler.versions
