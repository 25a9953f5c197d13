"""Windows, joins and where their results go; the paper's uses, beside the same in plain Python."""

import json
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from spark_streams import run_to_its_end

import tidelog
from tidelog import Admin, Producer
from tidelog import spark as ts
from tidelog.errors import SettingsError
from tidelog.spark import jobs
from tidelog.spark.results import append_batch, read_table, stream_id

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import paper_uses

NOON = datetime(2026, 1, 31, 12)  # noqa: DTZ001 - as Spark, whose time zone is UTC here


def at(second: int) -> datetime:
    return NOON + timedelta(seconds=second)


def send(bootstrap: str, topic: str, rows: list[tuple[int, dict[str, object]]]) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for second, value in rows:
            stamp = 1_769_860_800_000 + second * 1000
            key = str(value["item"]).encode()
            producer.send(topic, json.dumps(value).encode(), key=key, timestamp=stamp)


def test_windows_of_every_kind(spark: SparkSession) -> None:
    rows = [(at(0), "a", 1), (at(59), "a", 2), (at(60), "a", 4), (at(400), "a", 8), (at(1), "b", 9)]
    frame = spark.createDataFrame(rows, "timestamp timestamp, item string, price int")

    def found(window: str, **more: object) -> list[tuple[int, int, str, int, int]]:
        made = ts.windowed(frame, window, by=["item"], sums=["price"], **more)
        return sorted(
            (
                int((row[0] - NOON).total_seconds()),
                int((row[1] - NOON).total_seconds()),
                *tuple(row)[2:],
            )
            for row in made.collect()
        )

    assert found("1 minute") == [
        (0, 60, "a", 2, 3),
        (0, 60, "b", 1, 9),
        (60, 120, "a", 1, 4),
        (360, 420, "a", 1, 8),
    ]
    sliding = found("2 minutes", slide="1 minute")
    assert (0, 120, "a", 3, 7) in sliding
    assert (-60, 60, "a", 2, 3) in sliding
    assert found("5 minutes", session=True) == [
        (0, 360, "a", 3, 7),
        (1, 301, "b", 1, 9),
        (400, 700, "a", 1, 8),
    ]
    with pytest.raises(SettingsError, match="do not slide"):
        found("5 minutes", session=True, slide="1 minute")
    with pytest.raises(SettingsError, match="no column 'itme'"):
        ts.windowed(frame, "1 minute", by=["itme"])


def test_fields_of_json_with_and_without_a_schema_id(spark: SparkSession) -> None:
    rows = [
        (b"k", b'{"item": "a"}'),
        (None, b'\0\0\0\0\1{"item": "b"}'),
        (b"k", b"poison"),
        (b"k", None),
    ]
    frame = spark.createDataFrame(
        [(*row, at(0)) for row in rows], "key binary, value binary, timestamp timestamp"
    )
    found = ts.fields(frame, "item string").collect()
    assert [(row.key, row.item) for row in found] == [
        ("k", "a"),
        (None, "b"),
        ("k", None),
        ("k", None),
    ]


def test_joins_say_what_is_wrong(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(at(0), "a")], "timestamp timestamp, item string")
    with pytest.raises(SettingsError, match="the right has no column 'item'"):
        ts.join_table(frame, spark.range(1), "item")
    with pytest.raises(SettingsError, match="how='outer' must be left or inner"):
        ts.join_streams(frame, frame, "item", within="1 minute", how="outer")


def test_a_stream_of_windows_into_a_table(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, admin: Admin
) -> None:
    """Each window once, although a batch is done again; and the group is at the end."""
    checkpoint, table = str(tmp_path / "checkpoint"), str(tmp_path / "table")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}

    def run() -> None:
        stream = spark.readStream.format("tidelog").options(**options)
        stream = stream.options(**ts.stream_options(checkpoint, topic), startingOffsets="earliest")
        events = ts.fields(stream.load(), "item string, price int")
        counts = ts.windowed(events, "1 minute", by=["item"], sums=["price"], late="1 minute")
        jobs.run_stream(ts.to_table(counts, table, checkpoint))

    send(bootstrap, topic, [(second, {"item": "a", "price": 1}) for second in range(0, 180, 10)])
    run()
    before = read_table(spark, table).count()
    assert before
    commits = sorted(
        int(each.name) for each in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")
    )
    for name in (str(commits[-1]), f".{commits[-1]}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run()
    assert read_table(spark, table).count() == before
    send(bootstrap, topic, [(600, {"item": "a", "price": 1})])
    run()
    rows = DeltaTable(table).to_pyarrow_table().sort_by("window_start").to_pylist()
    assert [row["count"] for row in rows] == [6, 6, 6]
    assert [row["sum_price"] for row in rows] == [6, 6, 6]
    assert sum(each.offset for each in admin.group_offsets(topic).values()) == 19


def test_a_batch_goes_into_a_table_once(tmp_path: Path) -> None:
    import pyarrow as pa

    table, rows = str(tmp_path / "table"), pa.table({"a": [1, 2]})
    sink = stream_id(str(tmp_path / "checkpoint"))
    assert stream_id(str(tmp_path / "checkpoint")) == sink
    assert append_batch(table, rows, sink, 0)
    assert not append_batch(table, rows, sink, 0)
    assert append_batch(table, rows, stream_id(str(tmp_path / "another")), 0)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 4
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    with pytest.raises(SettingsError, match="not empty and not a Delta table"):
        append_batch(str(tmp_path / "letters"), rows, sink, 1)


def test_a_stream_with_a_table_that_changes(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, admin: Admin
) -> None:
    """The table is a compacted topic; what it says is what it said last when the batch was done."""
    names, out = f"{topic}-names", f"{topic}-out"
    admin.create_topics({names: 2, out: 2})
    kafka, checkpoint = {"bootstrap.servers": bootstrap}, str(tmp_path)

    def run() -> None:
        stream = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        stream = stream.option("subscribe", topic).options(**ts.stream_options(checkpoint))
        events = ts.fields(stream.option("startingOffsets", "earliest").load(), "item string")
        table = ts.latest(spark, names, kafka, "item string, name string")
        joined = ts.join_table(events, table, "item")
        run_to_its_end(ts.to_topic(joined, out, kafka, checkpoint, key=["item"]))

    send(bootstrap, names, [(0, {"item": "a", "name": "old"}), (1, {"item": "a", "name": "A"})])
    send(bootstrap, topic, [(0, {"item": "a"}), (1, {"item": "b"})])
    run()
    send(bootstrap, names, [(2, {"item": "b", "name": "B"})])
    send(bootstrap, topic, [(3, {"item": "b"})])
    run()
    values = tidelog.read(out, bootstrap=bootstrap, isolation="read_committed").column("value")
    found = [json.loads(each) for each in values.to_pylist()]
    assert sorted((each["item"], each.get("name", "")) for each in found) == [
        ("a", "A"),
        ("b", ""),
        ("b", "B"),
    ]


def test_a_table_that_changes_while_the_stream_runs(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, admin: Admin
) -> None:
    names, out = f"{topic}-names", f"{topic}-out"
    admin.create_topics({names: 1, out: 1})
    kafka = {"bootstrap.servers": bootstrap}
    checkpoint = str(tmp_path / "checkpoint")
    stream = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    stream = stream.option("subscribe", topic).options(**ts.stream_options(checkpoint))
    events = ts.fields(stream.option("startingOffsets", "earliest").load(), "item string")
    table = ts.latest(spark, names, kafka, "item string, name string")
    joined = ts.join_table(events, table, "item")
    writer = ts.to_topic(joined, out, kafka, checkpoint, key=["item"])
    expected: list[str] = []
    query = None
    try:
        for second, name in enumerate(["one", "two", "three"]):
            send(bootstrap, names, [(second, {"item": "a", "name": name})])
            send(bootstrap, topic, [(second, {"item": "a"})])
            query = query or writer.trigger(processingTime="0 seconds").start()
            query.processAllAvailable()
            expected.append(name)
            values = tidelog.read(out, bootstrap=bootstrap, isolation="read_committed")
            found = [json.loads(each)["name"] for each in values.column("value").to_pylist()]
            assert found == expected
    finally:
        if query is not None:
            query.stop()


def test_two_streams_meet_in_time(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, admin: Admin
) -> None:
    clicks = f"{topic}-clicks"
    admin.create_topics({clicks: 2})
    checkpoint, table = str(tmp_path / "checkpoint"), str(tmp_path / "table")
    send(bootstrap, topic, [(0, {"item": "a"}), (0, {"item": "b"}), (0, {"item": "c"})])
    send(bootstrap, clicks, [(30, {"item": "a"}), (90, {"item": "b"})])

    def stream(name: str) -> DataFrame:
        made = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        made = made.option("subscribe", name).option("startingOffsets", "earliest")
        return ts.fields(made.load(), "item string")

    joined = ts.join_streams(stream(topic), stream(clicks), "item", within="1 minute")
    run_to_its_end(ts.to_table(joined, table, checkpoint))
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert [(row["item"], row["right_timestamp"] - row["timestamp"]) for row in rows] == [
        ("a", timedelta(seconds=30))
    ]


def test_the_papers_uses(spark: SparkSession, bootstrap: str) -> None:
    made = paper_uses.generate(3, 1500)
    paper_uses.publish(bootstrap, made)
    found = {title: frame.collect() for title, frame in paper_uses.uses(spark, bootstrap)}

    clicked = {value["impression"] for _, value in made["clicks"]}
    five = 5 * 60_000
    shown = Counter((at - at % five, value["item"]) for at, value in made["impressions"])
    hits = Counter(
        (at - at % five, value["item"])
        for at, value in made["impressions"]
        if value["impression"] in clicked
    )
    rates = {
        (int(row.window_start.timestamp() * 1000), row.item): (row["count"], row.sum_clicked)
        for row in found["click-through rate by item and five minutes"]
    }
    assert Counter(rates.values()) == Counter((shown[place], hits[place]) for place in shown)
    assert {row.member for row in found["more than 60 actions in a minute"]} == set()
    assert {
        row.member
        for row in paper_uses.abuse(paper_uses.read(spark, bootstrap, "actions"), 40).collect()
    } == {13}

    friends = {value["member"]: value["friends"] for _, value in made["connections"]}
    feed = found["news for the first members"]
    assert all(row.member in friends[row.reader] for row in feed)
    times: dict[int, list[int]] = {}
    for stamp, value in made["actions"]:
        for reader, whom in friends.items():
            if value["member"] in whom:
                times.setdefault(reader, []).append(stamp)
    for reader, stamps in times.items():
        newest = sorted(stamps, reverse=True)[:3]
        rows = sorted((row.place, row.timestamp) for row in feed if row.reader == reader)
        assert [round(each.timestamp() * 1000) for _, each in rows] == newest

    seen: dict[object, set[str]] = {}
    for _, value in made["actions"]:
        seen.setdefault(value["member"], set()).add(str(value["item"]))
    pairs = Counter(
        (one, other) for items in seen.values() for one in items for other in items if one < other
    )
    counted = {(row.item, row.other): row.members for row in found["items that go together"]}
    assert counted == {pair: number for pair, number in pairs.items() if number >= 2}


def test_a_table_takes_columns_that_come_later(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    assert append_batch(place, pa.table({"a": [1]}), "s", 0)
    assert append_batch(place, pa.table({"a": [2], "b": ["x"]}), "s", 1)
    assert append_batch(place, pa.table({"a": [3]}), "s", 2)
    rows = DeltaTable(place).to_pyarrow_table().sort_by("a").to_pylist()
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": 3, "b": None}]
