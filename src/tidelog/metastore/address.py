"""Where the metadata is, in one word: `sqlite:PATH`, `zk://HOST:PORT,HOST:PORT/CHROOT` or `memory:`.

    address = parse_address("zk://a:2181,b:2181,c:2181/tidelog")
    metastore = open_metastore(address, clock)        # a handle that is still to be opened

Text that is none of these is refused with `BadAddress` and one line that says why.  Passwords are not part of an address, which is
printed: they come as `ZooKeeperAccess`.
"""

import re
from pathlib import Path

from tidelog.clock import Clock
from tidelog.dataclass import dataclass
from tidelog.errors import TidelogError
from tidelog.metastore.access import NOBODY, ZooKeeperAccess
from tidelog.metastore.contract import Metastore, MetastoreError
from tidelog.metastore.memory import MemoryMetastore, MemoryStore
from tidelog.metastore.sqlite import SqliteMetastore

_KINDS = "sqlite:PATH, zk://HOST:PORT,HOST:PORT/CHROOT or memory:"
_ZOOKEEPER_PORT = 2181
_HOST = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]"
_CONTROL = r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]"


class BadAddress(TidelogError):
    """The text does not say where a metastore is."""


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    path: Path

    def __str__(self) -> str:
        return f"sqlite:{self.path}"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    servers: tuple[str, ...]
    """Each "host:port"."""
    chroot: str
    """Begins with a slash and does not end with one; empty for the root itself."""

    def __str__(self) -> str:
        return f"zk://{','.join(self.servers)}{self.chroot}"


@dataclass(frozen=True, slots=True)
class MemoryAddress:
    def __str__(self) -> str:
        return "memory:"


Address = SqliteAddress | ZooKeeperAddress | MemoryAddress


def parse_address(text: str) -> Address:
    kind, colon, rest = text.partition(":")
    match kind if colon else "":
        case "sqlite":
            return _sqlite(text, rest)
        case "zk":
            return _zookeeper(text, rest)
        case "memory":
            if rest:
                raise BadAddress(f"metastore {text!r}: nothing may follow memory:")
            return MemoryAddress()
    raise BadAddress(f"metastore {text!r}: expected {_KINDS}")


def open_metastore(
    address: str | Address,
    clock: Clock,
    *,
    memory: MemoryStore | None = None,
    access: ZooKeeperAccess = NOBODY,
) -> Metastore:
    """A handle on the metastore at `address`; `memory` is what handles in memory are to share."""
    match parse_address(address) if isinstance(address, str) else address:
        case SqliteAddress(path):
            return SqliteMetastore(path, clock)
        case MemoryAddress():
            return MemoryMetastore(memory or MemoryStore(), clock)
        case ZooKeeperAddress(servers, chroot):
            try:
                from tidelog.metastore.zookeeper import ZooKeeperMetastore
            except ModuleNotFoundError as error:
                raise MetastoreError(
                    f"metadata in ZooKeeper needs the package {error.name}: pip install 'tidelog[zookeeper]'"
                ) from None
            return ZooKeeperMetastore(servers, chroot, clock, access=access)


def _sqlite(text: str, rest: str) -> SqliteAddress:
    if not rest:
        raise BadAddress(
            f"metastore {text!r}: the path of the file is missing, as in sqlite:data/metadata.db"
        )
    if rest.startswith("//"):
        raise BadAddress(f"metastore {text!r}: write sqlite:PATH, without slashes before the path")
    if "\0" in rest:
        raise BadAddress(f"metastore {text!r}: a path has no NUL")
    if rest.endswith("/") or Path(rest).is_dir():
        raise BadAddress(f"metastore {text!r}: that is a directory; name a file in it")
    return SqliteAddress(Path(rest))


def _zookeeper(text: str, rest: str) -> ZooKeeperAddress:
    if not rest.startswith("//"):
        raise BadAddress(
            f"metastore {text!r}: expected two slashes, as in zk://localhost:2181/tidelog"
        )
    place, question, options = rest[2:].partition("?")
    if question:
        raise BadAddress(f"metastore {text!r}: unknown option {options.split('=')[0]!r}")
    hosts, _, chroot = place.partition("/")
    servers = tuple(_server(text, each) for each in hosts.split(","))
    if len(set(servers)) < len(servers):
        raise BadAddress(f"metastore {text!r}: a server is named twice")
    return ZooKeeperAddress(servers, _chroot(text, chroot))


def _server(text: str, server: str) -> str:
    if "@" in server:
        # The address is not repeated: it has a password in it.
        raise BadAddress(
            "metastore zk://: give credentials with zookeeper.auth.username and .password"
        )
    # An IPv6 address has colons of its own, and brackets around them.
    match = re.fullmatch(r"(\[.*\]|[^:]*)(?::(.*))?", server)
    host, port = match.groups() if match else (server, None)
    if not host:
        raise BadAddress(
            f"metastore {text!r}: a host is missing, as in zk://localhost:2181/tidelog"
        )
    if not re.fullmatch(_HOST, host):
        raise BadAddress(f"metastore {text!r}: {host!r} is no host")
    if port is None:
        return f"{host}:{_ZOOKEEPER_PORT}"
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise BadAddress(f"metastore {text!r}: {port!r} is no port")
    return f"{host}:{int(port)}"


def _chroot(text: str, chroot: str) -> str:
    names = chroot.removesuffix("/").split("/") if chroot else []
    if any(name in ("", ".", "..") or re.search(_CONTROL, name) for name in names):
        raise BadAddress(f"metastore {text!r}: ZooKeeper has no path {'/' + chroot!r}")
    if names[:1] == ["zookeeper"]:
        raise BadAddress(f"metastore {text!r}: /zookeeper belongs to ZooKeeper itself")
    return "".join(f"/{name}" for name in names)
