"""A cluster of an older tidelog is updated broker by broker, while it is written to."""

import asyncio
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

import tidelog
from tidelog import Producer
from tidelog.client.admin import Admin
from tidelog.client.connection import Connection
from tidelog.cluster.metadata import METADATA_VERSION
from tidelog.cluster.versions import FEATURE
from tidelog.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.faults

OLD = "a024496"
"""The last commit whose brokers tell no metadata version."""
ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
TOPIC = "orders"
AT_A_TIME = 50


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    command = ["git", "-C", str(ROOT), "archive", OLD, "src"]
    try:
        made = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the older tidelog is taken from git, whose history is not here: {error}")
    directory = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"


@pytest.fixture
def cluster(old_source: Path) -> Iterator[LocalCluster]:
    quick = {
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "log.cleaner.enable": "false",
    }
    cluster = LocalCluster(3, settings=quick)
    for broker in cluster.brokers:
        # Its kernel is not compiled: the tree has sources only.
        broker.environment = {"PYTHONPATH": str(old_source), "TIDELOG_PURE": "1"}
    try:
        yield cluster.start()
    finally:
        for broker in cluster.brokers:
            broker.kill()
        cluster.close()


def until(hope: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not hope():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def versions(cluster: LocalCluster) -> list[int]:
    """What each broker says that all can read."""

    async def ask() -> list[int]:
        found = []
        for broker in cluster.brokers:
            connection = await Connection.open(
                broker.host, broker.port, client_id="upgrade", timeout_s=10
            )
            found.append(connection.features.get(FEATURE, 0))
            connection.close()
        return found

    return asyncio.run(ask())


def all_in_sync(cluster: LocalCluster) -> bool:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        topic = admin.describe_topics([TOPIC])[TOPIC]
    return all(len(each.isr) == 3 for each in topic.partitions)


def test_nothing_acknowledged_is_lost_and_the_new_version_comes_last(cluster: LocalCluster):
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics({TOPIC: 3})
    sent = []
    with Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:

        def write() -> None:
            values = [str(len(sent) + each) for each in range(AT_A_TIME)]
            for each in producer.send_many(TOPIC, [each.encode() for each in values]):
                each.result(PATIENCE_S)
            sent.extend(values)

        write()
        for broker in cluster.brokers:
            until(lambda: all_in_sync(cluster))
            assert max(versions(cluster)) <= 1, "an older broker could not read more"
            broker.stop()
            write()
            broker.environment = {}
            broker.start()
            write()
    until(lambda: all_in_sync(cluster))
    until(lambda: set(versions(cluster)) == {METADATA_VERSION})
    table = tidelog.read(TOPIC, bootstrap_servers=cluster.bootstrap)
    found = {each.decode() for each in table["value"].to_pylist()}
    assert found == set(sent)
    assert "Traceback" not in cluster.log(), cluster.log()
