"""A long history with snapshots: what a store keeps and what a latecomer reads does not grow with it.

TIDELOG_HISTORY=1000000 runs the full length; continuous integration has a shorter one for what is on disk.
"""

import os

import pytest
from rigs import MemoryRig, SqliteRig, ZooKeeperRig

from tidelog.metastore.contract import Compacted, Snapshot

LENGTHS = {MemoryRig: 100_000, SqliteRig: 1_500, ZooKeeperRig: 2_000}


async def test_a_long_history(rig):
    length = int(os.environ.get("TIDELOG_HISTORY", LENGTHS[type(rig)]))
    every = max(length // 100, 500)
    store = await rig.leading()
    for number in range(1, length + 1):
        assert await store.append(1, b"%d" % number) == number
        if number % every == 0:
            await store.save_snapshot(1, Snapshot(number - 10, b"state at %d" % (number - 10)))
    late = await rig.handle()
    assert (await late.tick()).log_end == length
    with pytest.raises(Compacted):
        await late.read(0)
    snapshot = await late.snapshot()
    assert snapshot is not None
    assert snapshot.data == b"state at %d" % snapshot.number
    after, read = snapshot.number, 0
    while entries := await late.read(after):
        assert [each.number for each in entries] == list(range(after + 1, after + 1 + len(entries)))
        after, read = entries[-1].number, read + len(entries)
    assert after == length
    assert read == length - snapshot.number <= every + 10
