"""Who is at the other end of a connection."""

from typing import NamedTuple


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


class Peer:
    """One connected peer, for as long as its connection lasts."""

    __slots__ = ("address", "listener", "local", "principal", "software")

    def __init__(self, address: Address, local: Address, listener: str) -> None:
        self.address = address
        self.local = local
        """The address that the peer dialled; it is told to come back there."""
        self.listener = listener
        self.principal = ANONYMOUS
        self.software: tuple[str, str] | None = None
        """Name and version of the client, once it has told them (ApiVersions v3)."""

    def __str__(self) -> str:
        return str(self.address)
