"""The same on executors of their own: a master and two workers, from the wheel alone."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

pytestmark = pytest.mark.skipif(
    "TIDELOG_SPARK_CLUSTER" not in os.environ,
    reason="takes a minute and three JVMs; TIDELOG_SPARK_CLUSTER=1 runs it",
)

PROGRAM = """
import sys
from tidelog.spark import jobs, session

bootstrap, topic, lake = sys.argv[1:]
conf = {"spark.ui.enabled": "false", "spark.executor.memory": "600m", "spark.log.level": "ERROR"}
spark = session("cluster", "local-cluster[2,1,700]", **conf)
frame = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
print("rows", frame.selectExpr("sum(cast(cast(value as string) as long)) total").first().total)
print("loaded", jobs.load([topic], lake, {"bootstrap.servers": bootstrap}, spark=spark).rows)
spark.stop()
"""


def test_executors_read_and_load(
    fill: Callable[..., None], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    fill(range(1000))
    lake = str(tmp_path / "lake")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, bootstrap, topic, lake],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"rows {sum(range(1000))}", "loaded 1000"]
    assert DeltaTable(lake).to_pyarrow_table().num_rows == 1000
