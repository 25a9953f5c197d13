"""Headers and frames, with their oddities."""

import struct

import pytest

from tidelog.errors import ProtocolError
from tidelog.protocol.frame import decode_response, encode_request, encode_response
from tidelog.protocol.headers import (
    RequestHeader,
    parse_request_header,
    parse_response_header,
    response_header,
)
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.offset_delete import OffsetDeleteRequest

START = struct.Struct(">hhi")


@pytest.mark.parametrize("client_id", [None, "", "kcat", "größe"])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_what_is_written_is_read(version: int, client_id: str | None) -> None:
    frame = encode_request(HeartbeatRequest(group_id="g"), version, 99, client_id)
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    header = parse_request_header(memoryview(frame)[4:])
    assert header[:4] == (12, version, 99, client_id)
    assert frame[4 + header.body_pos :].startswith(b"\2g" if version == 4 else b"\0\1g")


def test_the_client_id_keeps_its_two_byte_length_in_a_flexible_header() -> None:
    raw = START.pack(12, 4, 7) + b"\0\2id" + b"\0"
    assert parse_request_header(raw) == RequestHeader(12, 4, 7, "id", len(raw))


def test_tags_of_the_header_are_skipped() -> None:
    raw = START.pack(12, 4, 7) + b"\0\2id" + b"\1\5\3abc"
    assert parse_request_header(raw + b"body").body_pos == len(raw)


def test_tags_of_the_header_are_bounded() -> None:
    frame = struct.pack(">hhih", 18, 3, 7, -1) + b"\xff\xff\x7f" + b"\x63\0" * 2_097_151
    with pytest.raises(ProtocolError, match="tags"):
        parse_request_header(frame)


def test_an_unknown_api_or_version_still_has_a_header() -> None:
    assert parse_request_header(START.pack(999, 1, 7) + b"\0\1a").client_id == "a"
    raw = START.pack(18, 99, 7) + b"\0\1a" + b"\0"
    assert parse_request_header(raw + b"?") == RequestHeader(18, 99, 7, "a", len(raw))
    assert parse_request_header(START.pack(-5, -5, 7) + b"\xff\xff").client_id is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        START.pack(12, 0, 7),
        START.pack(12, 0, 7) + b"\0",
        START.pack(12, 0, 7) + b"\0\5abc",
        START.pack(12, 0, 7) + b"\x7f\xffabc",
        START.pack(12, 0, 7) + b"\xff\xfe",
        START.pack(12, 0, 7) + b"\0\1\xff",
        START.pack(12, 4, 7) + b"\0\1a",
        START.pack(12, 4, 7) + b"\0\1a\1\1\x7f",
        START.pack(12, 4, 7) + b"\0\1a\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_broken_header_is_a_protocol_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(raw)


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_has_the_old_header(version: int) -> None:
    assert response_header(ApiVersionsRequest.api_key, version, 1) == b"\0\0\0\1"


def test_the_answer_has_tags_where_its_version_is_flexible() -> None:
    assert response_header(12, 3, 1) == b"\0\0\0\1"
    assert response_header(12, 4, 1) == b"\0\0\0\1\0"
    assert response_header(OffsetDeleteRequest.api_key, 0, 1) == b"\0\0\0\1"


@pytest.mark.parametrize(
    ("response", "version"),
    [(HeartbeatResponse(error_code=27), v) for v in range(5)]
    + [(ApiVersionsResponse(error_code=35), v) for v in range(5)],
)
def test_answers_are_read_back(response: HeartbeatResponse, version: int) -> None:
    frame = encode_response(response, version, 42)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert decode_response(type(response), frame[4:], version) == (42, response)


def test_a_broken_answer_is_a_protocol_error() -> None:
    frame = encode_response(HeartbeatResponse(), 4, 42)[4:]
    with pytest.raises(ProtocolError, match="1 bytes after"):
        decode_response(HeartbeatResponse, frame + b"x", 4)
    for cut in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode_response(HeartbeatResponse, frame[:cut], 4)
    with pytest.raises(ProtocolError):
        parse_response_header(b"\0", 12, 0)
