"""ZooKeeper with a login and over TLS."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from zookeeper import JAR, ZooKeeper, _free_ports

from tidelog.clock import SystemClock
from tidelog.metastore.access import ZooKeeperAccess
from tidelog.metastore.address import BadAddress, parse_address
from tidelog.metastore.contract import MetastoreError
from tidelog.metastore.zookeeper import ZooKeeperMetastore

sys.path.append(str(Path(__file__).parent.parent))

from secured import Files


def test_a_password_has_no_place_in_the_address():
    with pytest.raises(BadAddress) as raised:
        parse_address("zk://me:hush@a:1/x")
    assert "hush" not in str(raised.value)
    assert "hush" not in repr(ZooKeeperAccess("me", "hush", key_password="hush"))


async def test_what_a_user_makes_is_for_that_user_alone(zookeeper):
    clock = SystemClock()
    me = ZooKeeperAccess("me", "secret")
    async with ZooKeeperMetastore(zookeeper.hosts, "/private", clock, access=me) as store:
        assert await store.cluster_id("first") == "first"
        session = await store.open_session(1, 9_000)
        await store.heartbeat(session)
    async with ZooKeeperMetastore(zookeeper.hosts, "/private", clock, access=me) as store:
        assert await store.cluster_id("second") == "first"
    for other in (ZooKeeperAccess(), ZooKeeperAccess("me", "wrong")):
        store = ZooKeeperMetastore(zookeeper.hosts, "/private", clock, access=other)
        with pytest.raises(MetastoreError, match="does not accept our credentials") as raised:
            async with store:
                await store.cluster_id("third")
        assert "wrong" not in str(raised.value)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory, files) -> Iterator[str]:
    """The address of a server that speaks TLS, and asks clients for certificates."""
    if not JAR.exists():
        pytest.skip("ZooKeeper is not installed; scripts/zookeeper.sh does it")
    pem = files.server.read_text()
    begin = pem.index("-----BEGIN CERTIFICATE")
    key = load_pem_private_key(pem[:begin].encode(), None)
    # Java wants the key in its newer form.
    packed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    keystore = files.directory / "zookeeper.pem"
    keystore.write_text(packed + pem[begin:])
    (port,) = _free_ports(1)
    more = (
        f"secureClientPort={port}\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"ssl.keyStore.location={keystore}\nssl.trustStore.location={files.roots}\n"
        "ssl.clientAuth=need\n"
    )
    with ZooKeeper(tmp_path_factory.mktemp("secured"), more=more):
        yield f"127.0.0.1:{port}"


async def test_tls_with_a_certificate_of_our_own(secured, files):
    ours = files.issue("broker", "broker-1")
    access = ZooKeeperAccess(tls=True, roots=str(files.roots), certificate=str(ours))
    async with ZooKeeperMetastore([secured], "/x", SystemClock(), access=access) as store:
        assert await store.cluster_id("first") == "first"


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # kazoo leaves the sockets of failed handshakes to the collector
async def test_a_server_that_nobody_vouches_for_is_not_spoken_to(secured, files, tmp_path):
    others = Files(tmp_path)
    ours = files.issue("broker", "broker-1")
    access = ZooKeeperAccess(tls=True, roots=str(others.roots), certificate=str(ours))
    store = ZooKeeperMetastore([secured], "/x", SystemClock(), access=access, patience=1)
    with pytest.raises(MetastoreError):
        await store.open()
    gc.collect()
