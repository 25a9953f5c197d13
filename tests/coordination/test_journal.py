"""A coordinator's journal, on a real log."""

import logging
from pathlib import Path
from uuid import UUID

import pytest

from tidelog.cluster.partition import Partition
from tidelog.coordination.journal import PartitionJournal
from tidelog.errors import ProtocolError
from tidelog.names import TopicPartition
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock


def decode(key: bytes, value: bytes | None, _: int) -> bytes | None:
    if key == b"damaged":
        raise ProtocolError("a key of another world")
    return None if key == b"from the future" else key


@pytest.fixture
def journal(tmp_path: Path) -> PartitionJournal[bytes]:
    clock = ManualClock()
    log = Log.open(
        str(tmp_path / "t-0"),
        files=LocalFiles(),
        config=LogConfig(),
        clock=clock,
        topic_partition=TopicPartition("t", 0),
    )
    partition = Partition("t", 0, UUID(int=1), log, 0, flusher=Flusher())
    return PartitionJournal(
        partition,
        clock=clock,
        encode=lambda record: (record, b""),
        decode=decode,
        load_bytes=1 << 20,
    )


async def test_what_was_appended_is_read_back_in_order(journal: PartitionJournal[bytes]) -> None:
    journal.append([b"a", b"b"])
    assert journal.append([b"c"]) == 2
    assert [chunk async for chunk in journal.scan()] == [[b"a", b"b", b"c"]]


async def test_a_record_that_cannot_be_read_costs_itself_alone(
    journal: PartitionJournal[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    journal.append([b"a", b"damaged", b"from the future", b"b"])
    with caplog.at_level(logging.ERROR):
        assert [chunk async for chunk in journal.scan()] == [[b"a", b"b"]]
    assert [each.getMessage() for each in caplog.records] == [
        "a record of t cannot be read and is skipped: a key of another world"
    ]
