"""`tidelog spark windows`, `join`, `audit` and the others, in this process: they find the session that is there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import tidelog
from tidelog import Admin, Producer
from tidelog.cli.main import main
from tidelog.spark import jobs

HOUR = 1_700_000_000_000 - 1_700_000_000_000 % 3_600_000

Tidelog = Callable[..., Any]


@pytest.fixture
def run(spark: SparkSession, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Tidelog:
    """Runs a command and returns what it has printed; `code` is what it must end with."""

    def command(*words: str, code: int = 0) -> str:
        cluster = () if words[0] in ("sql", "compact") else ("-b", bootstrap)
        capsys.readouterr()
        assert main(["spark", *words, *cluster]) == code
        return capsys.readouterr().out

    return command


@pytest.fixture
def clicks(topic: str, bootstrap: str) -> str:
    """Thirty clicks in three minutes, of items a and b."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(30):
            value = {"item": "ab"[number % 2], "price": number}
            stamp = HOUR + number * 6_000
            producer.send(topic, json.dumps(value).encode(), key=b"k", timestamp=stamp)
    return topic


def read(topic: str, bootstrap: str) -> list[dict[str, Any]]:
    found = tidelog.read(topic, bootstrap=bootstrap, isolation="read_committed")
    return [json.loads(value) for value in found.column("value").to_pylist()]


def test_windows(run: Tidelog, clicks: str, bootstrap: str, admin: Admin, tmp_path: Path) -> None:
    words = ["windows", clicks, "--fields", "item string, price int", "--by", "item"]
    words += ["--window", "1m", "--sum", "price"]
    shown = run(*words, "--json")
    rows = json.loads(shown)
    assert sum(row["count"] for row in rows) == 30
    assert sum(row["sum_price"] for row in rows) == sum(range(30))
    assert len(rows) == 6
    assert "would be written" in run(*words, "--dry-run")

    out = f"{clicks}-counts"
    admin.create_topics({out: 1})
    said = run(*words, "--to", out, "--checkpoint", str(tmp_path / "c"), "--group", clicks)
    assert f"{out}: 30 rows read" in said
    assert sum(row["count"] for row in read(out, bootstrap)) == 30
    assert sum(each.offset for each in admin.group_offsets(clicks).values()) == 30
    run(*words, "--to", out, code=2)  # without a checkpoint

    # Into a table goes what is final: three minutes are not over when ten may be late, and that is told.
    table = str(tmp_path / "t")
    said = run(*words, "--table", table, "--checkpoint", str(tmp_path / "d"))
    assert "6 windows are not over: each is written when a message comes that is --late 10m" in said


def test_joins(run: Tidelog, clicks: str, bootstrap: str, admin: Admin, tmp_path: Path) -> None:
    names, views = f"{clicks}-names", f"{clicks}-views"
    admin.create_topics({names: 1, views: 1})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(names, b'{"item": "a", "name": "Apple"}', key=b"a")
        for second in (0, 70):
            value = b'{"item": "a", "view": %d}' % second
            producer.send(views, value, key=b"v", timestamp=HOUR + second * 1000)
    fields = ["--fields", "item string, price int", "--on", "item"]
    rows = json.loads(
        run(
            "join",
            clicks,
            "--latest",
            names,
            "--other-fields",
            "item string, name string",
            *fields,
            "--json",
        )
    )
    assert [row["name"] for row in rows] == ["Apple"] * 15

    lake, table = str(tmp_path / "lake"), str(tmp_path / "seen")
    jobs.load([names], lake, {"bootstrap.servers": bootstrap})
    words = ["join", clicks, "--with-table", lake, "--other-fields", "item string, name string"]
    said = run(
        *words, *fields, "--how", "left", "--table", table, "--checkpoint", str(tmp_path / "c")
    )
    assert f"{table}: 30 rows read" in said
    found = DeltaTable(table).to_pyarrow_table().column("name").to_pylist()
    assert sorted(found, key=str) == ["Apple"] * 15 + [None] * 15

    shown = run(
        *("join", views, "--stream", clicks, "--on", "item", "--within", "20s", "--json"),
        *("--fields", "item string, view int", "--other-fields", "item string, price int"),
    )
    # Items a are clicked every 12 seconds.
    assert sorted((row["view"], row["price"]) for row in json.loads(shown)) == [
        (0, 0),
        (0, 2),
        (70, 12),
        (70, 14),
    ]
    run("join", views, "--stream", clicks, "--on", "item", code=2)  # within what?


def test_the_audit(
    run: Tidelog, clicks: str, bootstrap: str, fill: Callable[..., None], tmp_path: Path
) -> None:
    lake, page = str(tmp_path / "lake"), tmp_path / "audit.html"
    kafka = {"bootstrap.servers": bootstrap}
    jobs.load([clicks], lake, kafka, tier=jobs.LakeTier(f"{clicks}-lake", 60_000))
    words = ["audit", clicks, "--window", "1m", "--tier", f"live={bootstrap}"]
    words += ["--tier", f"lake={lake}"]
    told = json.loads(run(*words, "--published", f"{clicks}-lake", "--json", "--html", str(page)))
    assert [each["counts"] for each in told["windows"]] == [
        {f"{clicks}-lake": 10, "live": 10, "lake": 10}
    ] * 3
    assert "<svg" in page.read_text()
    fill(range(2), timestamp=HOUR)
    said = run(*words, code=1)
    assert "1 of 3 windows differ: live 32, lake 30" in said
    assert "lake:2" in said
    run("audit", clicks, "--tier", f"live={bootstrap}", code=2)  # compared with what?


def test_the_rest(run: Tidelog, clicks: str, bootstrap: str, admin: Admin, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    planned = run("load", clicks, "--table", lake, "--dry-run")
    assert "OFFSETS" in planned
    said = run("load", clicks, "--table", lake, "--decode", "json", "--master", "local[2]")
    assert "30 rows in 1 commits, 0 quarantined" in said
    total = json.loads(
        run(
            "sql",
            "--table",
            lake,
            "--json",
            "select sum(get_json_object(json, '$.price')) s from lake",
        )
    )
    assert total == [{"s": sum(range(30))}]
    assert "LAG" in run("status", clicks, "--table", lake)
    assert json.loads(run("compact", "--table", lake, "--dry-run", "--json"))["removed"] == 0
    assert "Would write 30 messages" in run("replay", "nowhere", "--table", lake, "--dry-run")
    assert "nowhere" not in admin.list_topics()
    run("sql", "--table", lake, "selekt 1", code=1)
    plain = str(tmp_path / "plain")
    run("load", clicks, "--table", plain, "--format", "parquet", "--master", "none")
    assert json.loads(run("sql", "--table", plain, "--json", "select count(*) n from lake")) == [
        {"n": 30}
    ]
