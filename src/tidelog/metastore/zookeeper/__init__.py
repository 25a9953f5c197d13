"""A metastore in ZooKeeper, for a cluster on several machines."""

from tidelog.metastore.zookeeper.store import ZooKeeperMetastore

__all__ = ["ZooKeeperMetastore"]
