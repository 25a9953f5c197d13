"""The same job in this process, on a standalone cluster of two workers, and through Spark Connect: the same result."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from one_job import job
from pyspark.sql import SparkSession
from spark_cluster import ConnectServer, StandaloneCluster, environment

from tidelog import Admin, Producer

ROWS = 1500


@pytest.fixture(scope="module")
def topic(admin: Admin, bootstrap: str) -> str:
    """With rows in five windows, and another topic to write to."""
    name = f"everywhere-{os.getpid()}"
    admin.create_topics({name: 2, f"{name}-out": 2})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(ROWS):
            stamp = 1_700_000_000_000 + number * 20
            producer.send(name, b"%d" % number, partition=number % 2, timestamp=stamp)
    return name


@pytest.fixture(scope="module")
def here(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    found = job(spark, bootstrap, topic, str(tmp_path_factory.mktemp("here")))
    assert found["rows"] == found["streamed"] == found["written"] == ROWS
    assert found["total"] == sum(range(ROWS))
    assert sum(found["loaded"]) == found["table"]["rows"] == ROWS
    assert sum(int(row[3]) for row in found["windows"]) == ROWS
    return found


def run_job(master: str, bootstrap: str, topic: str, directory: Path) -> dict[str, Any]:
    program = Path(__file__).parent / "one_job.py"
    done = subprocess.run(
        [sys.executable, str(program), master, bootstrap, topic, str(directory)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[ConnectServer]:
    pytest.importorskip("grpc", reason="Spark Connect's client needs grpcio")
    if os.environ.get("TIDELOG_SPARK_CLUSTER") == "no":
        pytest.skip("TIDELOG_SPARK_CLUSTER=no: without a server of its own")
    with ConnectServer(tmp_path) as made:
        yield made


def test_a_standalone_cluster(
    cluster: StandaloneCluster, here: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    assert run_job(cluster.master, bootstrap, topic, tmp_path / "there") == here


def test_spark_connect(
    connect: ConnectServer, here: dict[str, Any], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    assert run_job(connect.address, bootstrap, topic, tmp_path / "there") == here
