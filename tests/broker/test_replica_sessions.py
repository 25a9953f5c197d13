"""Sessions of followers: what is at rest is not looked at, and is told of as soon as it moves."""

import pytest
from hot_path import batch, produce_request, settled
from replicated import VERSION, ReplicatedPath, replica_fetch

from tidelog.errors import FencedLeaderEpoch, NotLeaderOrFollower
from tidelog.protocol.messages.fetch import ForgottenTopic

from hot_path import TOPIC_ID  # isort: skip


class Following:
    """A follower with a session, which knows what it would have in its log."""

    def __init__(self, path: ReplicatedPath, broker_id: int) -> None:
        self.path = path
        self.broker_id = broker_id
        self.offset = 0
        self.session_id = 0
        self.epoch = 0
        self.sent = None

    def request(self, *, max_wait_ms=0, **rest):
        position = self.offset
        if self.sent == position and self.epoch:
            request = replica_fetch(self.broker_id, None, max_wait_ms=max_wait_ms, **rest)
        else:
            last = 3 if self.offset else -1
            request = replica_fetch(
                self.broker_id, position, last_epoch=last, max_wait_ms=max_wait_ms, **rest
            )
        self.sent = position
        request.session_id, request.session_epoch = self.session_id, self.epoch
        return request

    def taken(self, response):
        """What the answer told, if anything."""
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch += 1
        found = [each for topic in response.responses for each in topic.partitions]
        if found and found[0].records:
            self.offset = self.path.replica.log_end_offset
        return found[0] if found else None

    async def fetch(self, **rest):
        return self.taken(await self.path.ask(self.request(**rest), VERSION))

    async def answer(self, deferred):
        request = self.request
        data = await settled(deferred)
        return self.taken(self.path.decoded(type(replica_fetch(1, 0)), VERSION, data)), request

    def looks_at(self) -> int:
        session = self.path.services.fetch_sessions._sessions[self.session_id]
        return len(session.to_look_at())


@pytest.fixture
async def pair(tmp_path):
    path = ReplicatedPath(tmp_path)
    both = Following(path, 2), Following(path, 3)
    for each in both:
        for _ in range(3):
            await each.fetch()
        assert each.looks_at() == 0
    return path, *both


def append(path, value=b"v"):
    path.serve(produce_request(batch(value), acks=1), 9)


async def test_an_append_wakes_the_fetch_that_waits(pair):
    path, second, third = pair
    waiting = path.serve(second.request(max_wait_ms=60_000), VERSION)
    assert not waiting.done
    await path.timers.advance(5_000)
    append(path)
    told, _ = await second.answer(waiting)
    assert told.records
    follower = path.replica.followers.by_id[2]
    # It had everything when it asked, five seconds ago.
    now_ms = int(path.clock.monotonic() * 1000)
    assert follower.caught_up_ms == now_ms - 5_000
    assert third.looks_at() == 1


async def test_one_at_rest_for_long_is_not_taken_for_one_that_lags(pair):
    path, second, third = pair
    for _ in range(5):
        await path.timers.advance(9_000)
        for each in (second, third):
            assert await each.fetch() is None
    append(path)
    assert path.replica.followers.lagging(1, int(path.clock.monotonic() * 1000)) == []
    await path.timers.advance(10_001)
    assert path.replica.followers.lagging(1, int(path.clock.monotonic() * 1000)) == [2, 3]


async def test_a_new_high_watermark_is_told_with_the_next_answer(pair):
    path, second, third = pair
    append(path)
    assert (await second.fetch()).records
    assert (await third.fetch()).records
    assert (await second.fetch()) is None  # it has all, the third may not
    assert (await third.fetch()).high_watermark == 1
    assert (await second.fetch()).high_watermark == 1
    assert (await second.fetch()) is None
    assert (await third.fetch()) is None
    assert second.looks_at() == third.looks_at() == 0


async def test_a_new_leader_is_told_at_once_and_a_new_epoch_with_the_next_answer(pair):
    path, second, third = pair
    waiting = path.serve(second.request(max_wait_ms=60_000), VERSION)
    path.lead(epoch=4, partition_epoch=1)
    assert (await third.fetch()).error_code == FencedLeaderEpoch.code
    path.follow(epoch=5, partition_epoch=2)
    told, _ = await second.answer(waiting)
    assert told.error_code == NotLeaderOrFollower.code
    path.lead(epoch=6, partition_epoch=3)
    second.sent = None
    await second.fetch(epoch=6)
    append(path)
    assert (await second.fetch(epoch=6)).records


async def test_one_that_is_not_in_sync_is_looked_at_until_it_is(pair):
    path, second, third = pair
    path.lead(isr=(1, 3), partition_epoch=1)
    await second.fetch()
    assert second.looks_at() == 1
    assert path.proposals == [path.replica]
    path.replica.followers.withdraw()
    await second.fetch()
    assert len(path.proposals) == 2
    path.replica.settle_isr(path.state(partition_epoch=2))
    await second.fetch()
    assert second.looks_at() == 0
    assert third.looks_at() == 1  # it hears nothing new, but is looked at


async def test_what_is_forgotten_is_watched_no_longer(pair):
    path, second, third = pair
    request = second.request()
    request.forgotten_topics_data = [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])]
    response = await path.ask(request, VERSION)
    assert response.session_id == 0
    assert len(path.replica.replica_watchers) == 1
    third.epoch, third.sent = 0, None
    await third.fetch()  # a new session ends the old one
    assert len(path.replica.replica_watchers) == 1


async def test_what_moved_silently_is_told_in_a_while(pair):
    path, second, _ = pair
    append(path)
    for _ in range(4):
        for each in pair[1:]:
            await each.fetch()
    path.replica.log.delete_records(1)  # as retention does
    assert await second.fetch() is None
    await path.timers.advance(10_000)
    assert (await second.fetch()).log_start_offset == 1
