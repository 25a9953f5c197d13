"""`tidelog search`: all that fits, and exports."""

import csv
import json
import sys

import pytest


@pytest.fixture
def orders(cli, topic):
    lines = [
        {
            "key": f"k{n % 3}",
            "value": json.dumps({"n": n}),
            "timestamp": 1_700_000_000_000 + n * 1000,
        }
        for n in range(30)
    ]
    lines[7] |= {"headers": {"source": "shop"}, "value": None}
    data = "".join(json.dumps(each) + "\n" for each in lines).encode()
    cli("produce", topic, "-f", "json", stdin=data).ok()
    cli("topic", "alter", topic, "-c", "retention.ms=-1").ok()
    return topic


def offsets(ran):
    return [json.loads(line)["offset"] for line in ran.ok().lines]


def test_all_that_fit_in_order(cli, orders):
    assert offsets(cli("search", orders, "--json")) == list(range(30))
    assert offsets(cli("search", orders, "--where", "key=k1", "--json")) == list(range(1, 30, 3))
    assert offsets(cli("search", orders, "--where", "key=k1", "-n", 2, "--json")) == [1, 4]
    assert offsets(cli("search", orders, "--where", "value.n>=28", "--json")) == [28, 29]
    assert offsets(cli("search", orders, "--where", "header.source=shop", "--json")) == [7]
    between = ["--since", 1_700_000_010_000, "--until", 1_700_000_013_000]
    assert offsets(cli("search", orders, *between, "--json")) == [10, 11, 12]


def test_for_eyes_without_a_format(cli, orders):
    first, value = cli("search", orders, "--where", "offset=7").ok().lines
    assert first == f"{orders}-0 @7  2023-11-14T22:13:27.000Z  key k1  source=shop"
    assert value.strip() == "(null)"


def test_nothing_found_is_one(cli, orders):
    ran = cli("search", orders, "--where", "key=nobody")
    assert (ran.code, ran.out, ran.err) == (1, "", "")


def test_csv_and_json_files(cli, orders, tmp_path):
    cli("search", orders, "--output", tmp_path / "a.csv").ok()
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [int(row["offset"]) for row in rows] == list(range(30))
    assert json.loads(rows[7]["headers"]) == [{"name": "source", "value": "shop"}]
    cli("search", orders, "--output", tmp_path / "a.jsonl").ok()
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 30
    ran = cli("search", orders, "--output", tmp_path / "a.doc")
    assert ran.code == 2
    assert "json, csv or parquet" in ran.err


def test_parquet(cli, orders, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    cli("search", orders, "--where", "offset<10", "--output", path).ok()
    rows = parquet.read_table(path).to_pylist()
    assert [row["offset"] for row in rows] == list(range(10))
    assert (rows[7]["key"], rows[7]["value"]) == (b"k1", None)
    assert rows[7]["headers"] == [{"name": "source", "value": b"shop"}]
    assert rows[7]["timestamp"].isoformat() == "2023-11-14T22:13:27+00:00"
    cli("peek", orders, "-n", 3, "--output", path).ok()
    assert parquet.read_table(path).num_rows == 3


def test_parquet_without_pyarrow_says_what_to_install(cli, orders, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    ran = cli("search", orders, "--output", tmp_path / "a.parquet")
    assert ran.code == 2
    assert "pip install 'tidelog[arrow]'" in ran.err
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.json"])
def test_half_an_export_is_none(cli, orders, tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("before")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tidelog.cli._progress.Progress.update", fail)
    assert cli("search", orders, "--output", tmp_path / name).code == 130
    assert {each.name: each.read_text() for each in tmp_path.glob("a.*")} == {name: "before"}
    assert cli("search", orders, "--output", tmp_path / "no" / name).code == 1


def test_consume_writes_no_parquet(cli, orders):
    assert "tidelog search" in cli("consume", orders, "-f", "parquet").err


def test_settings_reach_every_client(cli, orders, tmp_path):
    for command in ("search", "peek", "consume"):
        ran = cli(command, orders, "-X", "fetch.max.bytes=100000", "-X", "client.id=me", "--json")
        assert ran.ok().out
        ran = cli(command, orders, "-X", "bootstrap.servers=127.0.0.1:1", "--json")
        assert "127.0.0.1:1" in ran.err
    (tmp_path / "client.properties").write_text("bootstrap.servers=127.0.0.1:2\n# no\n")
    ran = cli(
        "topic", "list", "--command-config", tmp_path / "client.properties", "-b", "127.0.0.1:3"
    )
    assert "127.0.0.1:3" in ran.err
    assert cli("topic", "list", "--client-config", tmp_path / "absent").code == 2
