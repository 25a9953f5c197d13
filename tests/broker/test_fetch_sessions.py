"""Incremental fetches (KIP-227), through the handler and in the cache itself."""

import pytest
from hot_path import batch, fetch_request, produce_request, settled

from tidelog.broker.fetch_sessions import _MOST_PARTITIONS, FetchSessions
from tidelog.errors import FetchSessionIdNotFound
from tidelog.kernel.requests import FetchTopics
from tidelog.network.answer import Deferred
from tidelog.protocol.messages.fetch import FetchRequest, ForgottenTopic
from tidelog.testing.manual_clock import ManualClock


def parts(response):
    return [
        (each.partition_index, each.error_code) for t in response.responses for each in t.partitions
    ]


async def begin(hot, version=12):
    response = await hot.ask(fetch_request(0, 0, version=version, session_epoch=0), version)
    assert response.session_id > 0
    assert parts(response) == [(0, 0), (1, 0)]
    return response.session_id


async def test_only_what_changed_is_told(hot):
    session = await begin(hot)
    request = fetch_request(session_id=session, session_epoch=1)
    assert parts(await hot.ask(request, 12)) == []
    await hot.ask(produce_request(batch(b"x"), index=1), 9)
    request = fetch_request(session_id=session, session_epoch=2)
    assert parts(await hot.ask(request, 12)) == [(1, 0)]
    # The consumer goes on behind what it got, and is told nothing until there is more.
    request = fetch_request(None, 1, session_id=session, session_epoch=3)
    assert parts(await hot.ask(request, 12)) == []


async def test_an_incremental_fetch_waits_and_wakes(hot):
    session = await begin(hot)
    answer = hot.serve(fetch_request(session_id=session, session_epoch=1, max_wait_ms=500), 12)
    assert isinstance(answer, Deferred)
    await hot.ask(produce_request(batch(b"x")), 9)
    response = hot.decoded(FetchRequest, 12, await settled(answer))
    assert (response.session_id, parts(response)) == (session, [(0, 0)])


async def test_partitions_can_be_forgotten(hot):
    session = await begin(hot)
    await hot.ask(produce_request(batch(b"x"), batch(b"x")), 9)
    request = fetch_request(
        session_id=session,
        session_epoch=1,
        forgotten_topics_data=[ForgottenTopic(topic="events", partitions=[0])],
    )
    assert parts(await hot.ask(request, 12)) == [(1, 0)]
    request = fetch_request(
        session_id=session,
        session_epoch=2,
        forgotten_topics_data=[ForgottenTopic(topic="events", partitions=[1])],
    )
    response = await hot.ask(request, 12)
    assert (response.session_id, parts(response)) == (0, [])
    assert len(hot.services.fetch_sessions) == 0


async def test_what_had_data_is_served_last_next_time(hot):
    session = await begin(hot)
    for index in (0, 1):
        for _ in range(3):
            await hot.ask(produce_request(batch(b"x" * 1000), index=index), 9)
    seen = []
    for epoch in range(1, 5):
        request = fetch_request(session_id=session, session_epoch=epoch, max_bytes=100)
        response = await hot.ask(request, 12)
        seen += [p.partition_index for t in response.responses for p in t.partitions if p.records]
    assert seen == [0, 1, 0, 1]


async def test_wrong_sessions(hot):
    session = await begin(hot)
    assert (
        await hot.ask(fetch_request(session_id=session + 1, session_epoch=1), 12)
    ).error_code == 70
    assert (await hot.ask(fetch_request(session_id=session, session_epoch=5), 12)).error_code == 71
    by_id = fetch_request(version=13, session_id=session, session_epoch=1)
    assert (await hot.ask(by_id, 13)).error_code == 106
    assert (await hot.ask(fetch_request(session_id=session, session_epoch=1), 12)).error_code == 0


async def test_a_session_can_be_ended(hot):
    session = await begin(hot)
    response = await hot.ask(fetch_request(0, session_id=session, session_epoch=-1), 12)
    assert (response.session_id, parts(response)) == (0, [(0, 0)])
    assert (await hot.ask(fetch_request(session_id=session, session_epoch=1), 12)).error_code == 70


async def test_an_error_is_told_every_time_and_its_end_too(hot):
    session = await begin(hot)
    request = fetch_request(50, session_id=session, session_epoch=1)
    assert parts(await hot.ask(request, 12)) == [(0, 1)]
    request = fetch_request(session_id=session, session_epoch=2)
    assert parts(await hot.ask(request, 12)) == [(0, 1)]
    request = fetch_request(0, session_id=session, session_epoch=3)
    assert parts(await hot.ask(request, 12)) == [(0, 0)]


def test_sessions_are_bounded():
    clock = ManualClock()
    sessions = FetchSessions(2, clock)
    topics = [("t", [(0, -1, 0, -1, -1, 100, b"")])]

    def begin() -> int:
        return sessions.begin(0, False, topics, ends=False)[0]

    first, second = begin(), begin()
    assert first
    assert second
    assert begin() == 0, "none is old enough to go"
    clock.advance(100_000)
    sessions.resume(first, 1, False, [], [])
    clock.advance(30_000)
    assert begin() > 0
    assert len(sessions) == 2
    sessions.resume(first, 2, False, [], [])  # used since: it stayed


def test_the_epoch_wraps_to_1():
    sessions = FetchSessions(1, ManualClock())
    topics = [("t", [(0, -1, 0, -1, -1, 100, b"")])]
    session_id, _, session = sessions.begin(0, False, topics, ends=False)
    session.epoch = (1 << 31) - 1
    sessions.resume(session_id, (1 << 31) - 1, False, [], [])
    assert session.epoch == 1


def test_a_session_of_nothing_is_not_kept():
    sessions = FetchSessions(1, ManualClock())
    assert sessions.begin(0, False, [], ends=False) == (0, [], None)


def test_what_sessions_name_together_is_bounded():
    clock = ManualClock()
    cache = FetchSessions(slots=1000, clock=clock)
    many = _partitions("many", 20_000)
    ids = [
        cache.begin(0, False, many, ends=False)[0] for _ in range(_MOST_PARTITIONS // 20_000 + 5)
    ]
    assert ids.count(0) == 5
    assert cache.begin(0, False, _partitions("few", 1), ends=False)[0] == 0
    assert cache.begin(0, False, many, ends=False, always=True)[0] != 0
    # Whoever goes on does, and whoever would have more has to begin anew.
    cache.resume(ids[0], 1, False, [], [])
    with pytest.raises(FetchSessionIdNotFound):
        cache.resume(ids[0], 2, False, _partitions("more", 1), [])
    assert cache.begin(0, False, _partitions("few", 10), ends=False)[0] != 0
    clock.advance(200_000)
    assert all(cache.begin(0, False, many, ends=False)[0] for _ in range(20))
    assert cache._partitions == sum(each.counted for each in cache._sessions.values())


def _partitions(topic: str, count: int) -> FetchTopics:
    return [(topic, [(index, -1, 0, -1, -1, 1, None) for index in range(count)])]
