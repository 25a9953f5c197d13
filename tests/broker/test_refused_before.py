"""A producer's later batches while one before them was refused for a reason that passes.

An idempotent producer has several batches on their way.  librdkafka takes "out of order" for a sign that nothing behind
what is acknowledged was written: it begins a new epoch and writes all of it anew, also what had been written and only
waited for its commit.  So a batch is refused as the one before it was, until that one is here.
"""

import errno

import pytest
from hot_path import TOPIC_ID, HotPath, batch, produce_request, settled
from replicated import ReplicatedPath

from tidelog.broker.refusals import FORGOTTEN_AFTER_S, Refusals
from tidelog.errors import (
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartition,
)
from tidelog.kernel import stamp_batch
from tidelog.protocol.messages.produce import ProduceRequest

OUT_OF_ORDER = OutOfOrderSequenceNumber.code


def numbered(sequence, *, epoch=0, producer_id=4):
    values = (b"a", b"b")
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def told(hot, *args, **rest):
    """The error code and the base offset that a producer is answered."""
    response = await hot.ask(produce_request(numbered(*args, **rest), acks=-1), 9)
    return outcome(response)


def outcome(response):
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition.error_code, partition.base_offset


@pytest.fixture
def full(monkeypatch):
    """Call it to have the disk of a partition full, or not."""

    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def switch(partition, *, on):
        segment = type(partition.log.segments[-1])
        if on:
            monkeypatch.setattr(segment, "append", write)
        else:
            monkeypatch.undo()

    return switch


async def test_behind_a_batch_that_did_not_fit_the_disk(tmp_path, full):
    """What the chaos run found: the first batch is written and will be committed, and must not come a second time."""
    hot = ReplicatedPath(tmp_path)
    waiting = hot.serve(produce_request(numbered(0), acks=-1), 9)
    full(hot.replica, on=True)
    assert await told(hot, 2) == (KafkaStorageError.code, -1)
    assert await told(hot, 4) == (KafkaStorageError.code, -1)
    full(hot.replica, on=False)
    assert await told(hot, 6) == (KafkaStorageError.code, -1), "it would be out of order"
    hot.follow()
    assert outcome(hot.decoded(ProduceRequest, 9, await settled(waiting)))[0] == 6


async def test_behind_a_batch_for_which_too_few_replicas_were_in_sync(tmp_path):
    hot = ReplicatedPath(tmp_path, min_insync_replicas=2)
    waiting = hot.serve(produce_request(numbered(0), acks=-1), 9)
    hot.lead(isr=(1,), partition_epoch=1)
    assert await told(hot, 2) == (NotEnoughReplicas.code, -1)
    hot.lead(isr=(1, 2), partition_epoch=2)
    assert await told(hot, 4) == (NotEnoughReplicas.code, -1), "too late for the one before"
    again = [hot.serve(produce_request(numbered(each), acks=-1), 9) for each in (0, 2, 4)]
    await hot.fetched_by(2, 6)
    answers = [
        outcome(hot.decoded(ProduceRequest, 9, await settled(each))) for each in (waiting, *again)
    ]
    assert answers == [(0, 0), (0, 0), (0, 2), (0, 4)]


async def test_behind_a_batch_that_came_before_the_broker_led(tmp_path):
    hot = ReplicatedPath(tmp_path)
    hot.follow()
    assert (await told(hot, 0))[0] == NotLeaderOrFollower.code
    hot.lead(epoch=5, partition_epoch=1)
    assert (await told(hot, 2))[0] == NotLeaderOrFollower.code
    assert hot.replica.log_end_offset == 0, "the producer is not known, so any sequence would do"


@pytest.mark.parametrize("elsewhere", [(0, 2, 4), (0,)], ids=["and more", "alone"])
async def test_a_batch_that_another_leader_took_is_not_waited_for(tmp_path, elsewhere):
    """The broker lost the partition, refused a batch, followed the leader that took it, and leads again."""
    hot = ReplicatedPath(tmp_path)
    hot.follow()
    assert (await told(hot, 0))[0] == NotLeaderOrFollower.code
    for offset, sequence in enumerate(elsewhere):
        taken = numbered(sequence)
        stamp_batch(taken, 0, 2 * offset, 4)
        hot.replica.append_from_leader(taken, 2 * offset, 0)
    hot.lead(epoch=5, partition_epoch=1, isr=(1,))
    following = elsewhere[-1] + 2
    assert await told(hot, following) == (0, following)


async def test_a_batch_that_is_still_missing_is_waited_for_after_a_change_of_leaders(tmp_path):
    hot = ReplicatedPath(tmp_path)
    hot.lead(isr=(1,), partition_epoch=1)
    assert await told(hot, 0) == (0, 0)
    hot.follow(partition_epoch=2)
    assert (await told(hot, 2))[0] == NotLeaderOrFollower.code
    hot.lead(epoch=5, partition_epoch=3, isr=(1,))
    assert (await told(hot, 4))[0] == NotLeaderOrFollower.code
    assert [await told(hot, each) for each in (2, 4)] == [(0, 2), (0, 4)]


async def test_behind_a_batch_that_came_before_its_topic(tmp_path):
    hot = HotPath(tmp_path, partitions=0)
    assert (await told(hot, 0))[0] == UnknownTopicOrPartition.code
    hot.add("events", 0, TOPIC_ID)
    assert (await told(hot, 2))[0] == UnknownTopicOrPartition.code
    assert [await told(hot, each) for each in (0, 2)] == [(0, 0), (0, 2)]


async def test_others_are_not_held_up(hot, full):
    full(hot.partition(), on=True)
    assert (await told(hot, 2))[0] == KafkaStorageError.code
    full(hot.partition(), on=False)
    assert await told(hot, 0, producer_id=5) == (0, 0)
    assert await told(hot, 0) == (0, 2), "an earlier one, as a repeated one is"
    assert await told(hot, 0, epoch=1) == (0, 4), "a new epoch"
    assert await told(hot, 4, epoch=1) == (OUT_OF_ORDER, -1), "nothing was refused in this one"


async def test_a_batch_that_never_comes_again_is_not_waited_for(hot, full):
    assert await told(hot, 0) == (0, 0)
    full(hot.partition(), on=True)
    assert (await told(hot, 2))[0] == KafkaStorageError.code
    full(hot.partition(), on=False)
    assert (await told(hot, 4))[0] == KafkaStorageError.code
    await hot.timers.advance(30_000)
    assert await told(hot, 4) == (OUT_OF_ORDER, -1)


def test_what_nobody_came_back_for_does_not_hold_for_ever():
    """Small requests of idempotent producers go the short way again."""
    refusals = Refusals()
    refusals.note("events", 0, memoryview(numbered(0)), NotLeaderOrFollower(), 100.0)
    assert refusals.hold(100.0 + FORGOTTEN_AFTER_S / 2)
    assert not refusals.hold(100.0 + FORGOTTEN_AFTER_S)


async def test_sequences_begin_anew_after_the_largest(hot, full):
    last = (1 << 31) - 2
    assert await told(hot, last - 2) == (0, 0)
    full(hot.partition(), on=True)
    assert (await told(hot, last))[0] == KafkaStorageError.code
    full(hot.partition(), on=False)
    assert (await told(hot, 0))[0] == KafkaStorageError.code
    assert [await told(hot, each) for each in (last, 0)] == [(0, 2), (0, 4)]
