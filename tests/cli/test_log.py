"""`tidelog log dump`: the files as they lie on the disk."""

import json
import struct
from pathlib import Path

import pytest

from tidelog.records.builder import build_batch
from tidelog.records.control import EndTransactionMarker
from tidelog.storage.snapshots import SnapshotEntry, encode_snapshot


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Two batches: offsets 10 and 11, and a commit marker at 12."""
    rows = [(1000, b"k", b"v", (("h", b"x"),)), (1001, None, b"\xff", ())]
    first = build_batch(rows, base_offset=10, leader_epoch=3)
    marker = EndTransactionMarker(True, 7).build(
        producer_id=5, producer_epoch=1, timestamp_ms=1002, base_offset=12, leader_epoch=3
    )
    path = tmp_path / "00000000000000000010.log"
    path.write_bytes(bytes(first) + bytes(marker))
    return path


def test_batches_in_kafkas_words(tidelog, segment):
    first, second = tidelog("log", "dump", segment).ok().lines[1:]
    assert first.startswith("baseOffset: 10 lastOffset: 11 count: 2 baseSequence: -1 ")
    assert "CreateTime: 1001" in first
    assert first.endswith("isvalid: true")
    assert "isControl: true" in second


def test_records_and_markers(tidelog, segment):
    ran = tidelog("log", "dump", "--files", segment, "--print-data-log")
    lines = [each for each in ran.ok().lines if each.startswith("| ")]
    assert lines[0] == (
        "| offset: 10 CreateTime: 1000 keySize: 1 valueSize: 1 headerKeys: [h] key: k payload: v"
    )
    assert "payload_base64: /w==" in lines[1]
    assert lines[2].endswith("endTxnMarker: COMMIT coordinatorEpoch: 7")
    rows = map(json.loads, tidelog("log", "dump", segment, "-d", "--json").ok().lines)
    assert [each["offset"] for each in rows if "offset" in each] == [10, 11, 12]


def test_damage_is_told_with_its_place(tidelog, segment):
    good = segment.read_bytes()
    segment.write_bytes(good + b"torn")
    ran = tidelog("log", "dump", segment)
    assert ran.code == 1
    assert f"found 4 invalid bytes at position {len(good)}" in ran.out
    segment.write_bytes(good[:70] + b"!" + good[71:])
    assert "at position 0" in tidelog("log", "dump", segment).out


def test_indexes_are_compared_with_the_segment(tidelog, segment):
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 1, 0))
    assert tidelog("log", "dump", index).ok().lines[1:] == ["offset: 11 position: 0"]
    index.write_bytes(struct.pack(">ii", 1, 5))
    ran = tidelog("log", "dump", index)
    assert ran.code == 1
    assert "position 5" in ran.out


def test_the_other_files(tidelog, segment):
    times = segment.with_suffix(".timeindex")
    times.write_bytes(struct.pack(">qiqi", 1001, 1, 1000, 2))
    ran = tidelog("log", "dump", times)
    assert (ran.code, ran.lines[1]) == (1, "timestamp: 1001 offset: 11")
    aborted = segment.with_suffix(".txnindex")
    aborted.write_bytes(struct.pack(">hqqqq", 0, 5, 10, 12, 13))
    assert tidelog("log", "dump", aborted, "--json").ok().json["lastStableOffset"] == 13
    snapshot = segment.with_suffix(".snapshot")
    snapshot.write_bytes(encode_snapshot([SnapshotEntry(5, 1, 0, 11, 0, 1001, 7, -1)]))
    assert tidelog("log", "dump", snapshot).ok().lines[1].startswith("producerId: 5 ")
    snapshot.write_bytes(b"nothing")
    assert tidelog("log", "dump", snapshot).code == 1


def test_wrong_use(tidelog, tmp_path):
    assert tidelog("log", "dump").code == 2
    assert tidelog("log", "dump", tmp_path / "picture.png").code == 2
    assert tidelog("log", "dump", tmp_path / "00.log").code == 1


def test_a_live_brokers_files(tidelog, cli, broker, topic):
    cli("produce", topic, "-z", "lz4", stdin=b"a\nb\n").ok()
    (path,) = (broker.data / f"{topic}-0").glob("*.log")
    ran = tidelog("log", "dump", path, "-d", "--json").ok()
    rows = [json.loads(line) for line in ran.lines]
    assert rows[0]["compresscodec"] == "lz4"
    assert [each["payload"] for each in rows[1:]] == ["a", "b"]
