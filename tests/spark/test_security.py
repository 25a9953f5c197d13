"""Source, sink, stream and load against a broker that wants TLS and a password."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_streams import run_to_its_end

from tidelog import Admin, Producer
from tidelog.spark import jobs
from tidelog.testing.local_broker import LocalBroker

sys.path.insert(0, str(Path(__file__).parents[1]))
from secured import Files, as_user, secured_broker


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def secured(tmp_path: Path, files: Files) -> Iterator[LocalBroker]:
    with secured_broker(tmp_path, files) as made:
        yield made


def test_everything_over_tls_with_a_password(
    spark: SparkSession, secured: LocalBroker, files: Files, tmp_path: Path
) -> None:
    kafka = as_user(secured.bootstrap, files)
    with Admin(kafka) as admin:
        admin.create_topics({"clicks": 2, "copy": 2})
    with Producer(kafka) as producer:
        for number in range(100):
            producer.send("clicks", b"%d" % number, partition=number % 2)
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    read = spark.read.format("tidelog").options(**options)
    assert read.option("subscribe", "clicks").load().count() == 100

    stream = spark.readStream.format("tidelog").options(**options, subscribe="clicks")
    stream = stream.option("startingOffsets", "earliest").option("groupId", "copied")
    writer = stream.load().select("value").writeStream.format("tidelog")
    writer = writer.options(**options, topic="copy")
    run_to_its_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert spark.read.format("tidelog").options(**options, subscribe="copy").load().count() >= 100
    assert jobs.load(["clicks"], str(tmp_path / "lake"), kafka, spark=spark).rows == 100

    wrong = {**options, "kafka.sasl.password": "guess"}
    with pytest.raises(PySparkException, match=r"[Aa]uthentication|password|log in"):
        spark.read.format("tidelog").options(**wrong, subscribe="clicks").load().count()
