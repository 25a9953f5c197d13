"""One Spark session and one broker for all tests of Spark: a session takes seconds to start."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidelog import Admin, Producer
from tidelog.spark import session
from tidelog.testing.local_broker import LocalBroker

sys.path.insert(0, str(Path(__file__).parent))  # for `spark_streams` and its like

from spark_cluster import StandaloneCluster
from stock_connector import connector

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.retention.ms": "-1",  # times in the tests are of long ago
}
FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as made:
        yield made
        assert "Traceback" not in made.log(), made.log()


@pytest.fixture(scope="session")
def bootstrap(broker: LocalBroker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as made:
        yield made


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # The stock connector's jars must be there from the start; it costs nothing who does not use it.
    jars = {"spark.jars": ",".join(connector().jars)} if connector().jars else {}
    made = session("tests", "local[2]", **FAST, **jars)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers."""
    if os.environ.get("TIDELOG_SPARK_CLUSTER") == "no":
        pytest.skip("TIDELOG_SPARK_CLUSTER=no: without a cluster of four JVMs")
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


_numbers = itertools.count()


@pytest.fixture
def topic(admin: Admin) -> str:
    """A fresh topic with two partitions."""
    name = f"clicks-{os.getpid()}-{next(_numbers)}"
    admin.create_topics({name: 2})
    return name


@pytest.fixture
def fill(bootstrap: str, topic: str) -> Callable[..., None]:
    """Writes records with the numbers as values, evenly over the partitions."""

    def write(numbers: range, partitions: int = 2, **more: Any) -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in numbers:
                producer.send(
                    topic, b"%d" % number, b"k%d" % number, partition=number % partitions, **more
                )

    return write
