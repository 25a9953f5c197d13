"""First, last, and by time."""

import pytest
from hot_path import batch, produce_request

from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

T0 = 1_700_000_000_000


async def ask(hot, timestamp, version=10, isolation=0, partition=0, epoch=-1, times=1):
    one = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name="events", partitions=[one] * times)],
    )
    response = await hot.ask(request, version)
    found = response.topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset


@pytest.fixture
async def filled(hot):
    for at, value in enumerate([b"a", b"b", b"c"]):
        await hot.ask(produce_request(batch(value, value, now_ms=T0 + at * 10)), 9)
    return hot


@pytest.mark.parametrize("version", range(1, 11))
async def test_the_ends(filled, version):
    assert await ask(filled, -1, version) == (0, -1, 6)
    assert await ask(filled, -2, version) == (0, -1, 0)


async def test_by_time(filled):
    assert await ask(filled, 0) == (0, T0, 0)
    assert await ask(filled, T0 + 1) == (0, T0 + 10, 2)
    assert await ask(filled, T0 + 20) == (0, T0 + 20, 4)
    assert await ask(filled, T0 + 21) == (0, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "found"),
    [(-3, 7, (0, T0 + 20, 4)), (-4, 8, (0, -1, 0)), (-5, 9, (0, -1, -1))],
)
async def test_special_times_and_the_versions_that_know_them(filled, timestamp, since, found):
    assert await ask(filled, timestamp, since) == found
    assert (await ask(filled, timestamp, since - 1))[0] == 35


async def test_times_that_nobody_knows(filled):
    assert (await ask(filled, -6))[0] == 35


async def test_reading_committed_ends_before_an_open_transaction(filled):
    open_one = batch(
        b"t", now_ms=T0 + 30, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    await filled.ask(produce_request(open_one, transactional_id="mine"), 9)
    assert await ask(filled, -1, isolation=0) == (0, -1, 7)
    assert await ask(filled, -1, isolation=1) == (0, -1, 6)
    assert await ask(filled, T0 + 25, isolation=0) == (0, T0 + 30, 6)
    assert await ask(filled, T0 + 25, isolation=1) == (0, -1, -1)


async def test_errors(filled):
    assert (await ask(filled, -1, partition=7))[0] == 3
    assert (await ask(filled, -1, epoch=2))[0] == 74
    assert (await ask(filled, -1, epoch=9))[0] == 75
    assert (await ask(filled, -1, times=2))[0] == 42
