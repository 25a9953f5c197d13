"""How we show ourselves to ZooKeeper, and how it shows itself to us."""

from dataclasses import field

from tidelog.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """With a user, everything that we make can be read and changed by that user alone (scheme `digest`)."""

    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    roots: str = ""
    """PEM file that the servers' certificates are checked against; the system's without."""
    certificate: str = ""
    """PEM file with our own certificate and its key, where the servers ask for one."""
    key_password: str = field(default="", repr=False)


NOBODY = ZooKeeperAccess()
"""Plain text, and everybody may read and change what we make: an ensemble in a network of its own."""
