"""Fetches of followers: how they move the high watermark, what they are answered, and what producers wait for."""

import asyncio

import pytest
from hot_path import PEER, HotPath, batch, fetch_request, joined, produce_request, settled
from replicated import ReplicatedPath, replica_fetch

from tidelog.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from tidelog.network.answer import Deferred
from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.records.batch import iterate_batches, read_records


@pytest.fixture
def path(tmp_path):
    return ReplicatedPath(tmp_path)


def values(partition) -> list[bytes]:
    return [
        record.value
        for position, _ in iterate_batches(partition.records or b"")
        for record in read_records(partition.records, position)
    ]


def only(response):
    ((part,),) = ([*topic.partitions] for topic in response.responses)
    return part


def produced(path: HotPath, *, acks=-1, value=b"v", timeout_ms=5_000):
    request = produce_request(batch(value), acks=acks, timeout_ms=timeout_ms)
    return path.serve(request, 9)


async def outcome(path: HotPath, answer):
    request = produce_request(batch())
    response = path.decoded(type(request), 9, await settled(answer))
    return response.responses[0].partition_responses[0]


async def consumed(path, offset=0, **rest):
    request = fetch_request(offset, version=17, max_wait_ms=0, **rest)
    return only(await path.ask(request, 17))


# ---------------------------------------------------------------------- the high watermark


async def test_acks_all_is_answered_when_all_in_sync_have_fetched(path):
    answer = produced(path)
    assert isinstance(answer, Deferred)
    first = await path.fetched_by(2, 0)
    assert (values(first), first.high_watermark) == ([b"v"], 0)
    await path.fetched_by(2, 1, last_epoch=3, max_wait_ms=0)
    assert not answer.done
    await path.fetched_by(3, 0)
    third = await path.fetched_by(3, 1, last_epoch=3, max_wait_ms=0)
    assert third.high_watermark == 1
    assert (await outcome(path, answer)).error_code == 0


async def test_acks_1_does_not_wait_for_followers(path):
    assert isinstance(produced(path, acks=1), bytes)


async def test_consumers_read_what_is_committed_and_followers_all(path):
    for value in (b"a", b"b"):
        produced(path, acks=1, value=value)
    assert (await consumed(path)).records in (None, b"")
    assert values(await path.fetched_by(2, 0)) == [b"a", b"b"]
    await path.fetched_by(3, 1, max_wait_ms=0)
    await path.fetched_by(2, 2, last_epoch=3, max_wait_ms=0)
    assert values(await consumed(path)) == [b"a"]


async def test_a_follower_that_waits_is_woken_by_an_append_and_a_consumer_by_the_commit(path):
    follower = path.serve(replica_fetch(2, 0, max_wait_ms=5_000), 17)
    consumer = path.serve(fetch_request(0, version=17, max_wait_ms=5_000), 17)
    assert not follower.done
    produced(path, acks=1)
    await asyncio.sleep(0)
    assert follower.done
    assert not consumer.done
    for broker_id in (2, 3):
        await path.fetched_by(broker_id, 1, last_epoch=3, max_wait_ms=0)
    await asyncio.sleep(0)
    assert consumer.done


async def test_a_waiting_producer_hears_of_the_time_and_of_a_new_leader(path):
    late = produced(path, timeout_ms=1)
    assert (await outcome(path, late)).error_code == RequestTimedOut.code
    waiting = produced(path)
    path.follow()
    assert (await outcome(path, waiting)).error_code == NotLeaderOrFollower.code
    assert (await outcome(path, produced(path))).error_code == NotLeaderOrFollower.code


async def test_the_same_leader_in_a_new_epoch_goes_on(path):
    waiting = produced(path)
    path.lead(epoch=4, partition_epoch=1)
    assert not waiting.done
    for broker_id in (2, 3):
        await path.fetched_by(broker_id, 1, epoch=4, last_epoch=3, max_wait_ms=0)
    assert (await outcome(path, waiting)).error_code == 0


async def test_too_few_replicas_in_sync(tmp_path):
    path = ReplicatedPath(tmp_path, min_insync_replicas=2)
    waiting = produced(path)
    path.lead(isr=(1,), partition_epoch=1)
    # What is not on enough replicas does not become committed, so that nobody reads it.
    assert path.replica.high_watermark == 0
    assert (await outcome(path, produced(path))).error_code == NotEnoughReplicas.code
    assert isinstance(produced(path, acks=1), bytes)
    path.lead(isr=(1, 2), partition_epoch=2)
    await path.fetched_by(2, 2, last_epoch=3, max_wait_ms=0)
    assert (await outcome(path, waiting)).error_code == 0


async def test_the_isr_shrinks_while_a_producer_waits(tmp_path):
    path = ReplicatedPath(tmp_path, min_insync_replicas=1)
    waiting = produced(path)
    path.lead(isr=(1,), partition_epoch=1)
    assert (await outcome(path, waiting)).error_code == 0
    again = produced(path)
    assert isinstance(again, bytes)  # alone, it is committed at once


async def test_a_commit_with_too_few_in_sync_is_told(tmp_path):
    path = ReplicatedPath(tmp_path, min_insync_replicas=1)
    path.lead(isr=(1, 2), partition_epoch=1)
    waiting = produced(path)
    await path.fetched_by(2, 1, last_epoch=3, max_wait_ms=0)
    late = produced(path)
    path.replica.followers.settle((1,), 2)
    path.replica.log.set_config(path.replica.log.config.over({"min.insync.replicas": "3"}))
    path.replica._advance(2)
    assert (await outcome(path, waiting)).error_code == 0
    assert (await outcome(path, late)).error_code == NotEnoughReplicasAfterAppend.code


# ---------------------------------------------------------------------- who may fetch what


async def test_epochs_and_strangers_are_refused(path):
    assert (await path.fetched_by(2, 0, epoch=2)).error_code == FencedLeaderEpoch.code
    assert (await path.fetched_by(2, 0, epoch=4)).error_code == UnknownLeaderEpoch.code
    assert (await path.fetched_by(9, 0)).error_code == UnknownLeaderEpoch.code
    stale = await path.fetched_by(2, 0, broker_epoch=5)
    assert stale.error_code == NotLeaderOrFollower.code
    path.follow()
    assert (await path.fetched_by(2, 0, epoch=4)).error_code == NotLeaderOrFollower.code


async def test_what_a_stranger_or_the_past_says_does_not_count(path):
    answer = produced(path)
    for request in (
        replica_fetch(2, 1, epoch=2, last_epoch=3),
        replica_fetch(3, 1, last_epoch=3, broker_epoch=5),
        replica_fetch(9, 1, last_epoch=3),
    ):
        await path.ask(request, 17)
    assert not answer.done
    assert path.replica.high_watermark == 0


async def test_a_diverging_log_is_told_where_to_be_cut_and_does_not_count(path):
    for _ in range(4):
        produced(path, acks=1)
    path.lead(epoch=6, partition_epoch=1)
    found = await path.fetched_by(2, 9, epoch=6, last_epoch=5)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (3, 4)
    assert path.replica.followers.by_id[2].log_end_offset == -1
    found = await path.fetched_by(2, 6, epoch=6, last_epoch=3)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (3, 4)
    fine = await path.fetched_by(2, 4, epoch=6, last_epoch=3, max_wait_ms=0)
    assert fine.diverging_epoch.epoch == -1
    assert path.replica.followers.by_id[2].log_end_offset == 4


async def test_a_divergence_is_told_within_a_session_too(path):
    for _ in range(4):
        produced(path, acks=1)
    begin = replica_fetch(2, 4, last_epoch=3, max_wait_ms=0, session_epoch=0)
    response = await path.ask(begin, 17)
    assert response.session_id
    again = replica_fetch(
        2, 5, last_epoch=2, max_wait_ms=0, session_id=response.session_id, session_epoch=1
    )
    told = only(await path.ask(again, 17))
    assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (2, 0)


async def test_an_offset_outside_of_the_log(path):
    found = await path.fetched_by(2, 7)
    assert found.error_code == OffsetOutOfRange.code


# ---------------------------------------------------------------------- in-sync replicas


async def test_a_follower_that_has_caught_up_is_proposed_once(path):
    path.lead(isr=(1,), partition_epoch=1)
    produced(path, acks=1)
    path.lead(isr=(1,), epoch=4, partition_epoch=2)
    await path.fetched_by(2, 0, epoch=4)
    assert path.proposals == []
    for _ in range(2):
        await path.fetched_by(2, 1, epoch=4, last_epoch=3, max_wait_ms=0)
    assert path.proposals == [path.replica]
    proposal = path.replica.followers.proposal
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2), (-1, 12))
    # It counts already, because the controller may have agreed.
    waiting = produced(path)
    assert isinstance(waiting, Deferred)
    path.replica.settle_isr(path.state(epoch=4, partition_epoch=3, isr=(1, 2)))
    assert path.replica.followers.proposal is None
    await path.fetched_by(2, 2, epoch=4, last_epoch=4, max_wait_ms=0)
    assert (await outcome(path, waiting)).error_code == 0


async def test_who_lags_is_proposed_to_leave_and_counts_until_the_controller_agrees(path):
    waiting = produced(path)
    await path.fetched_by(2, 1, last_epoch=3, max_wait_ms=0)
    await path.timers.advance(10_001)
    assert path.replica.propose_shrink()
    assert not path.replica.propose_shrink()  # one at a time
    assert path.replica.followers.proposal.isr == (1, 2)
    assert not waiting.done
    path.replica.settle_isr(path.state(partition_epoch=1, isr=(1, 2)))
    assert (await outcome(path, waiting)).error_code == 0


async def test_a_late_answer_of_the_controller_changes_nothing(path):
    path.lead(isr=(1, 2), partition_epoch=5)
    path.replica.settle_isr(path.state(partition_epoch=4, isr=(1,)))
    path.replica.settle_isr(path.state(epoch=2, partition_epoch=9, isr=(1,)))
    assert path.replica.followers.isr == (1, 2)
    path.follow(partition_epoch=6)
    path.replica.settle_isr(path.state(partition_epoch=7, isr=(1,)))
    assert path.replica.followers is None
    path.lead(partition_epoch=5, isr=(1,))  # an image that is older than the answer that was here
    assert path.replica.not_leading is not None


# ---------------------------------------------------------------------- offsets and racks


def latest(replica_id=-1):
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    topic = ListOffsetsTopic(name="events", partitions=[asked])
    return ListOffsetsRequest(replica_id=replica_id, topics=[topic])


async def test_a_new_leader_tells_no_end_before_it_knows_what_is_committed(path):
    produced(path, acks=1)
    path.lead(epoch=4, partition_epoch=1)
    found = (await path.ask(latest(), 7)).topics[0].partitions[0]
    assert found.error_code == OffsetNotAvailable.code
    assert (await path.ask(latest(2), 7)).topics[0].partitions[0].offset == 1
    for broker_id in (2, 3):
        await path.fetched_by(broker_id, 1, epoch=4, last_epoch=3, max_wait_ms=0)
    found = (await path.ask(latest(), 7)).topics[0].partitions[0]
    assert (found.error_code, found.offset) == (0, 1)


async def test_a_consumer_is_sent_to_the_replica_in_its_rack(path):
    produced(path, acks=1)
    assert (await consumed(path, rack_id="b")).preferred_read_replica == -1  # nothing known of it
    for broker_id in (2, 3):
        await path.fetched_by(broker_id, 1, last_epoch=3, max_wait_ms=0)
    found = await consumed(path, rack_id="b")
    assert (found.preferred_read_replica, found.records or b"") == (2, b"")
    assert (await consumed(path, rack_id="a")).preferred_read_replica == -1
    assert values(await consumed(path, rack_id="z")) == [b"v"]


async def test_a_follower_serves_consumers_that_tell_a_rack(path):
    produced(path, acks=1)
    path.follow()
    path.replica.append_from_leader(b"", 1, 0)
    assert values(await consumed(path, rack_id="a", current_leader_epoch=4)) == [b"v"]
    assert (await consumed(path)).error_code == NotLeaderOrFollower.code
    waiting = path.serve(fetch_request(1, version=17, max_wait_ms=5_000, rack_id="a"), 17)
    more = batch(b"w")
    path.replica.append_from_leader(with_offset(more, 1, 4), 2, 0)
    await asyncio.sleep(0)
    request = fetch_request(1, version=17)
    assert values(only(path.decoded(type(request), 17, await settled(waiting)))) == [b"w"]


def with_offset(data, offset, epoch):
    from tidelog.kernel import stamp_batch

    stamp_batch(data, 0, offset, epoch)
    return data


async def test_a_run_of_small_requests_is_answered_when_all_of_it_is_committed(path):
    produced(path, acks=1)  # the segment has begun
    frames = b"".join(
        bytes(encode_request(produce_request(batch(b"%d" % i), timeout_ms=60_000), 9, 7, "t"))
        for i in range(3)
    )
    buffer = memoryview(bytearray(frames))
    stop, answer = path.dispatcher.serve_run(PEER, buffer, 0, len(frames))
    assert stop == len(frames)
    assert isinstance(answer, Deferred)
    for broker_id in (2, 3):
        assert not answer.done
        await path.fetched_by(broker_id, 4, last_epoch=3, max_wait_ms=0)
    data = joined(await settled(answer))
    request = produce_request(batch())
    offsets = []
    for _ in range(3):
        size = int.from_bytes(data[:4], "big") + 4
        response = path.decoded(type(request), 9, data[:size]).responses[0].partition_responses[0]
        offsets.append((response.error_code, response.base_offset))
        data = data[size:]
    assert offsets == [(0, 1), (0, 2), (0, 3)]


async def test_a_run_ends_with_its_time_or_with_the_leadership(path):
    produced(path, acks=1)
    for timeout_ms, code in ((1, RequestTimedOut.code), (60_000, NotLeaderOrFollower.code)):
        frames = b"".join(
            bytes(encode_request(produce_request(batch(), timeout_ms=timeout_ms), 9, 7, "t"))
            for _ in range(2)
        )
        _, answer = path.dispatcher.serve_run(PEER, memoryview(bytearray(frames)), 0, len(frames))
        if timeout_ms > 1:
            path.follow()
        data = joined(await settled(answer))
        size = int.from_bytes(data[:4], "big") + 4
        request = produce_request(batch())
        response = path.decoded(type(request), 9, data[:size]).responses[0].partition_responses[0]
        assert response.error_code == code


async def test_deleted_records_are_gone_when_all_live_replicas_begin_behind_them(path):
    for _ in range(3):
        produced(path, acks=1)
    for broker_id in (2, 3):
        await path.fetched_by(broker_id, 3, last_epoch=3, max_wait_ms=0)
    waiting_follower = path.serve(replica_fetch(2, 3, last_epoch=3, max_wait_ms=60_000), 17)
    done = path.replica.delete_records(2)
    await asyncio.sleep(0)
    assert waiting_follower.done  # so that it hears of it at once
    assert path.replica.low_watermark == 0
    for broker_id in (2, 3):
        assert not done.done()
        request = replica_fetch(broker_id, 3, last_epoch=3, max_wait_ms=0)
        request.topics[0].partitions[0].log_start_offset = 2
        await path.ask(request, 17)
    await asyncio.wait_for(done, 5)
    assert path.replica.low_watermark == 2
    assert path.replica.delete_records(1) is None


async def test_one_that_catches_up_is_held_back_by_the_leaders_limit(path):
    everyone = {"leader.replication.throttled.replicas": "*"}
    path.replica.log.set_config(path.replica.log.config.over(everyone))
    produced(path, acks=1, value=b"x" * 2_000)
    produced(path, acks=1)
    path.lead(isr=(1, 3), partition_epoch=1)
    one = await path.fetched_by(2, 0, partition_max_bytes=100)
    assert one.records  # the limit of the test's broker is 1,000 bytes a second
    held = await path.fetched_by(2, 1, last_epoch=3, max_wait_ms=0)
    assert not held.records
    assert values(await path.fetched_by(3, 1, last_epoch=3)) == [b"v"]  # it is in sync
    await path.timers.advance(5_000)
    assert values(await path.fetched_by(2, 1, last_epoch=3)) == [b"v"]
