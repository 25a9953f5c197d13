"""A client that sends whatever it is told to."""

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar

from tidelog.protocol.codec import decode
from tidelog.protocol.frame import encode_request
from tidelog.protocol.headers import parse_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)

PATIENCE_S = 90.0  # how long an answer or an end may take before the connection counts as stuck
SENTINEL = 0x7EADBEEF


class Closed(Exception):
    """The broker has ended the connection."""


class Wire:
    """One connection; `receive` gives whole frames without their length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes | bytearray) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def finish_sending(self) -> None:
        """Say that no more bytes come."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Closed from error

    def receive(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def call(self, request: Request, version: int, response: type[R]) -> R:
        """Send a request and decode its answer, which must be nothing but the answer."""
        self.send(encode_request(request, version, 7, "fuzz"))
        frame = self.receive()
        correlation_id, pos = parse_response_header(frame, request.api_key, version)
        assert correlation_id == 7
        answer, stop = decode(response, frame, pos, version)
        assert stop == len(frame), f"{len(frame) - stop} bytes after the answer"
        return answer

    def is_alive(self) -> bool:
        """Whether the broker still answers here; False if it has closed, an error if it does neither.

        Answers to earlier requests are passed over.
        """
        try:
            self.send(encode_request(ApiVersionsRequest(), 0, SENTINEL, None))
            while struct.unpack_from(">i", self.receive())[0] != SENTINEL:
                pass
        except Closed:
            return False
        return True

    def is_closed(self) -> bool:
        """Wait for the end of the connection; False if an answer comes instead."""
        try:
            self.receive()
        except Closed:
            return True
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                some = self._socket.recv(size - len(data))
            except ConnectionResetError as error:
                raise Closed from error
            if not some:
                raise Closed
            data += some
        return bytes(data)


def framed(body: bytes | bytearray) -> bytes:
    return struct.pack(">i", len(body)) + body


def memory_bytes(pid: int) -> int:
    """The most memory that a process has held at once."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")
