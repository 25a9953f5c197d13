"""Where a metastore is: what is understood, and one line for what is not."""

import sys
from pathlib import Path

import pytest

from tidelog.clock import SystemClock
from tidelog.metastore.address import (
    BadAddress,
    MemoryAddress,
    SqliteAddress,
    ZooKeeperAddress,
    open_metastore,
    parse_address,
)
from tidelog.metastore.contract import MetastoreError
from tidelog.metastore.memory import MemoryMetastore
from tidelog.metastore.sqlite import SqliteMetastore
from tidelog.metastore.zookeeper import ZooKeeperMetastore


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("memory:", MemoryAddress()),
        ("sqlite:metadata.db", SqliteAddress(Path("metadata.db"))),
        ("sqlite:/var/lib/a:b/metadata.db", SqliteAddress(Path("/var/lib/a:b/metadata.db"))),
        ("zk://a:2181", ZooKeeperAddress(("a:2181",), "")),
        ("zk://a", ZooKeeperAddress(("a:2181",), "")),
        ("zk://a:2181/", ZooKeeperAddress(("a:2181",), "")),
        ("zk://a:1,b-2.example:2,[::1]:3/x/y", ZooKeeperAddress(("a:1", "b-2.example:2", "[::1]:3"), "/x/y")),
        ("zk://a:1/x/", ZooKeeperAddress(("a:1",), "/x")),
    ],
)  # fmt: skip
def test_what_is_understood(text, address):
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected sqlite:PATH"),
        ("metadata.db", "expected sqlite:PATH"),
        ("etcd://a:1", "expected sqlite:PATH"),
        ("zookeeper://a:1", "expected sqlite:PATH"),
        ("memory:x", "nothing may follow"),
        ("sqlite:", "path of the file is missing"),
        ("sqlite:///var/x.db", "without slashes"),
        ("sqlite:/", "a directory"),
        ("sqlite:/tmp", "a directory"),
        ("sqlite:a\0b", "NUL"),
        ("zk:a:2181", "expected two slashes"),
        ("zk:/a:2181", "expected two slashes"),
        ("zk://", "a host is missing"),
        ("zk:///x", "a host is missing"),
        ("zk://a:1,,b:2", "a host is missing"),
        ("zk://a:1,a:1", "named twice"),
        ("zk://a:0", "'0' is no port"),
        ("zk://a:65536", "'65536' is no port"),
        ("zk://a:port", "'port' is no port"),
        ("zk://a:", "'' is no port"),
        ("zk://a:1:2", "'1:2' is no port"),
        ("zk://::1", "is no port|a host is missing"),
        ("zk://a b:1", "'a b' is no host"),
        ("zk://user:secret@a:1", "credentials"),
        ("zk://a:1/x//y", "has no path '/x//y'"),
        ("zk://a:1/x/../y", "has no path"),
        ("zk://a:1/x\n", "has no path"),
        ("zk://a:1/zookeeper/x", "belongs to ZooKeeper"),
        ("zk://a:1/x?tls=yes", "unknown option 'tls'"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(BadAddress, match=why) as caught:
        parse_address(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("metastore ")


def test_a_store_of_each_kind(tmp_path):
    clock = SystemClock()
    assert isinstance(open_metastore("memory:", clock), MemoryMetastore)
    assert isinstance(open_metastore(f"sqlite:{tmp_path / 'a.db'}", clock), SqliteMetastore)


async def test_zookeeper_is_not_asked_before_it_is_opened():
    assert isinstance(open_metastore("zk://nowhere:1/x", SystemClock()), ZooKeeperMetastore)


def test_kazoo_that_is_not_installed(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("tidelog.metastore.zookeeper")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    monkeypatch.setitem(sys.modules, "kazoo.exceptions", None)
    with pytest.raises(MetastoreError, match=r"pip install 'tidelog\[zookeeper\]'"):
        open_metastore("zk://a:1", SystemClock())
