"""What the README shows of Spark works as it stands."""

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidelog import Producer

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_block_of_spark(
    spark: SparkSession,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number, partition=0)
    (text,) = (
        each
        for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        if "ts.session" in each
    )
    exec(text.replace("127.0.0.1:9092", bootstrap), {})
    assert re.search(r"\|\s+0\|\s+3\|", capfd.readouterr().out)
    assert DeltaTable("lake").to_pyarrow_table().num_rows == 3
