"""The metastore that a broker's settings name."""

from pathlib import Path

from tidelog.broker.settings import BrokerSettings
from tidelog.clock import Clock
from tidelog.metastore.access import ZooKeeperAccess
from tidelog.metastore.address import open_metastore
from tidelog.metastore.contract import Metastore
from tidelog.metastore.sqlite import SqliteMetastore

METADATA_FILE = "tidelog-metadata.db"
"""In the first log directory, unless the settings say otherwise."""


def metastore_of(settings: BrokerSettings, clock: Clock) -> Metastore:
    """Not opened yet."""
    if settings.cluster.metastore:
        security = settings.security
        access = ZooKeeperAccess(
            user=security.zookeeper_user,
            password=security.zookeeper_password,
            tls=security.zookeeper_tls,
            roots=security.zookeeper_roots,
            certificate=security.zookeeper_certificate,
            key_password=security.zookeeper_key_password,
        )
        return open_metastore(settings.cluster.metastore, clock, access=access)
    return SqliteMetastore(Path(settings.broker.log_dirs[0]) / METADATA_FILE, clock)
