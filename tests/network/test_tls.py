"""Connections over TLS: real handshakes, large answers, slow readers, certificates, and peers that do not speak it."""

import asyncio
import os
import socket
import ssl

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from tidelog.network.config import NetworkConfig
from tidelog.network.hub import Hub
from tidelog.network.listener import Listener, TlsSettings, open_socket
from tidelog.network.outbox import drop_sent
from tidelog.network.peer import ANONYMOUS, Principal
from tidelog.network.tls import _front
from tidelog.security.certificates import distinguished_name

LENGTH = 4


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH, "big") + body


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


class Rig:
    def __init__(self, authority: trustme.CA, serve, *, client_certificates: bool = False) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        if client_certificates:
            context.verify_mode = ssl.CERT_REQUIRED
            authority.configure_trust(context)
        self.authority = authority
        self.seen: list[Principal] = []

        def serve_and_note(peer, frame):
            self.seen.append(peer.principal)
            return serve(peer, frame)

        config = NetworkConfig()
        self.hub = Hub(serve_and_note, config, asyncio.get_running_loop())
        tls = TlsSettings(lambda: context, _principal)
        self.listener = Listener(open_socket("127.0.0.1", 0, config), "SSL", self.hub, tls)
        self.listener.start()
        self.port = self.listener.address.port

    async def connect(self, certificate: trustme.LeafCert | None = None):
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
        )

    def close(self) -> None:
        self.listener.close()
        self.hub.abort()


def _principal(certificate, peer) -> Principal:
    return Principal("User", distinguished_name(certificate)) if certificate else ANONYMOUS


@pytest.fixture
async def rig_of(authority):
    made: list[Rig] = []

    def make(serve, **rest) -> Rig:
        made.append(Rig(authority, serve, **rest))
        return made[-1]

    yield make
    for each in made:
        each.close()
    await asyncio.sleep(0)


def echo(peer, frame):
    return framed(bytes(frame))


async def receive(reader) -> bytes:
    size = int.from_bytes(await reader.readexactly(LENGTH), "big")
    return await reader.readexactly(size)


@pytest.mark.parametrize("size", [1, 16_000, 100_000, 3_000_000])
async def test_frames_of_any_size(rig_of, size):
    rig = rig_of(echo)
    reader, writer = await rig.connect()
    body = os.urandom(size)
    writer.write(framed(body) + framed(b"small") + framed(body))
    assert [await receive(reader) for _ in range(3)] == [body, b"small", body]
    assert rig.seen[0] is ANONYMOUS
    writer.close()


async def test_many_small_frames_at_once(rig_of):
    rig = rig_of(echo)
    reader, writer = await rig.connect()
    bodies = [b"%d" % each * 20 for each in range(5_000)]
    writer.write(b"".join(map(framed, bodies)))
    assert [await receive(reader) for _ in bodies] == bodies
    writer.close()


async def test_what_waits_decrypted_is_served_when_an_answer_is_there(rig_of):
    """Both requests come in one TLS record; the second waits inside the TLS layer until the first is answered."""
    gate = asyncio.Event()

    async def slow(body: bytes) -> bytes:
        await gate.wait()
        return framed(body)

    rig = rig_of(lambda peer, frame: slow(bytes(frame)))
    reader, writer = await rig.connect()
    writer.write(b"".join(framed(b"%d" % each) for each in range(3)))
    gate.set()
    assert [await receive(reader) for _ in range(3)] == [b"0", b"1", b"2"]
    writer.close()


async def test_records_from_files(rig_of, tmp_path):
    data = os.urandom(500_000)
    (tmp_path / "log").write_bytes(data)

    class File:
        def __init__(self) -> None:
            self._file = open(tmp_path / "log", "rb")  # noqa: SIM115

        def fileno(self) -> int:
            return self._file.fileno()

        def pread(self, length: int, position: int) -> bytes:
            return os.pread(self._file.fileno(), length, position)

        def close(self) -> None:
            self._file.close()

    class Region:
        file, position, length = File(), 100, 400_000

    def serve(peer, frame):
        return [(400_002).to_bytes(4, "big") + b"<", Region(), b">"]

    rig = rig_of(serve)
    reader, writer = await rig.connect()
    writer.write(framed(b"x"))
    assert await receive(reader) == b"<" + data[100:400_100] + b">"
    writer.close()
    Region.file.close()


async def test_a_reader_that_is_slow_gets_everything(rig_of):
    answer = os.urandom(5_000_000)
    rig = rig_of(lambda peer, frame: framed(answer))
    reader, writer = await rig.connect()
    writer.write(framed(b"x") * 4)
    for _ in range(100):
        await asyncio.sleep(0)
    for _ in range(4):
        assert await receive(reader) == answer
    writer.close()


async def test_a_client_is_known_by_its_certificate(rig_of, authority):
    rig = rig_of(echo, client_certificates=True)
    certificate = authority.issue_cert(
        "alice@example.org", common_name="alice", organization_name="Sales, north"
    )
    reader, writer = await rig.connect(certificate)
    writer.write(framed(b"x"))
    await receive(reader)
    assert rig.seen[0].name.startswith("CN=alice,")
    assert "O=Sales\\, north" in rig.seen[0].name
    writer.close()


async def test_a_client_without_a_certificate_is_refused_where_one_is_required(rig_of, caplog):
    caplog.set_level("INFO")
    rig = rig_of(echo, client_certificates=True)

    async def ask() -> None:
        reader, writer = await rig.connect()
        writer.write(framed(b"x"))
        await receive(reader)

    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await ask()
    assert not rig.seen
    assert "the TLS handshake failed: peer did not return a certificate" in caplog.text


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", framed(b"\0\x12\0\0\0\0\0\0"), bytes(range(100, 164))],
    ids=["http", "kafka", "noise"],
)
async def test_who_does_not_speak_tls_is_told_off_in_one_line(rig_of, caplog, garbage):
    caplog.set_level("INFO")
    rig = rig_of(echo)
    with socket.create_connection(("127.0.0.1", rig.port)) as plain:
        plain.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(plain, garbage)
        try:
            while await loop.sock_recv(plain, 1000):
                pass
        except ConnectionError:
            pass
    assert not rig.seen
    assert len([each for each in caplog.messages if "TLS handshake failed" in each]) == 1


pieces = st.lists(st.binary(max_size=50_000), min_size=1, max_size=8)


@given(out=pieces, sent=st.integers(0, 200_000))
def test_what_is_sent_is_taken_and_nothing_else(out, sent):
    whole = b"".join(out)
    left = list(out)
    front = bytes(_front(left))
    assert whole.startswith(front)
    sent = min(sent, len(front))
    drop_sent(left, sent)
    assert b"".join(bytes(each) for each in left) == whole[sent:]


async def test_a_peer_that_is_held_back_is_answered_and_then_waits(rig_of):
    """A quota holds the connection: the answer goes out, the next request waits."""
    held: list[object] = []

    def serve(peer, frame):
        if not held:
            held.append(peer)
            peer.hold(30)
        return framed(bytes(frame))

    rig = rig_of(serve)
    reader, writer = await rig.connect()
    writer.write(framed(b"1") + framed(b"2"))
    assert await receive(reader) == b"1"
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(rig.seen) == 1
    held[0].hold(0)
    assert await receive(reader) == b"2"
    writer.close()
