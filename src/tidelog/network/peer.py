"""Who is at the other end of a connection."""

from typing import NamedTuple, Protocol


class Principal(NamedTuple):
    """As whom a peer is known; Kafka writes it `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Holdable(Protocol):
    """The connection of a peer, as far as others may touch it."""

    def hold(self, seconds: float) -> None: ...

    def finish(self) -> None: ...

    @property
    def arrived_at(self) -> float: ...

    def watch(self, probe: "Probe") -> None: ...


class Probe(Protocol):
    """Wants to know when an answer is sent."""

    def sending(self) -> None: ...

    def sent(self) -> None: ...


class Peer:
    """One connected peer, for as long as its connection lasts."""

    __slots__ = (
        "address",
        "connection",
        "handed_on_by",
        "is_broker",
        "largest",
        "listener",
        "local",
        "login",
        "principal",
        "share",
        "software",
    )

    def __init__(self, address: Address, local: Address, listener: str) -> None:
        self.address = address
        self.local = local
        """The address that the peer dialled; it is told to come back there."""
        self.listener = listener
        self.principal = ANONYMOUS
        self.software: tuple[str, str] | None = None
        """Name and version of the client, once it has told them (ApiVersions v3)."""
        self.login: object | None = None
        """Where the peer stands with its login; the broker's business."""
        self.largest: int | None = None
        """Largest request that is read, in bytes, where it is less than others may send: a stranger's, until the login."""
        self.is_broker = False
        """It has shown itself to be a broker, which no quota holds for."""
        self.share: object | None = None
        """What the peer is limited in; the broker's business."""
        self.connection: Holdable | None = None
        self.handed_on_by: Peer | None = None
        """Who said that this peer had asked it; None for those who came themselves."""

    def hold(self, seconds: float) -> None:
        """Serve the peer nothing more for so long: it has used more than its share."""
        if self.connection is not None:
            self.connection.hold(seconds)

    @property
    def arrived_at(self) -> float:
        """When the loop saw that requests had come, of which this is one; 0 if nobody knows."""
        return 0.0 if self.connection is None else self.connection.arrived_at

    def watch(self, probe: Probe) -> None:
        """The answer that is put out next is to be followed until it is sent."""
        if self.connection is not None:
            self.connection.watch(probe)

    def hang_up(self) -> None:
        """Answer what is being served, then close the connection."""
        if self.connection is not None:
            self.connection.finish()

    def __str__(self) -> str:
        return str(self.address)
