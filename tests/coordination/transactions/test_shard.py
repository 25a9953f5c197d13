"""Decisions about transactional ids: who owns one, what its transaction holds, how that ends."""

from dataclasses import replace

import pytest

from tidelog.coordination.transactions.records import Change, decode_change, encode_change
from tidelog.coordination.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TABLE,
    TransactionState,
)
from tidelog.coordination.transactions.transaction import MAX_EPOCH, Identity, Transaction
from tidelog.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    ProtocolError,
    TransactionAbortable,
)

HERE, THERE = ("t", 0), ("t", 1)


async def test_one_transaction_after_another(world):
    producer = await world.init()
    assert producer == (100, 0)
    for commit, prepared, complete in (
        (True, PREPARE_COMMIT, COMPLETE_COMMIT),
        (False, PREPARE_ABORT, COMPLETE_ABORT),
    ):
        world.clock.advance(5)
        await world.add(producer, HERE)
        await world.add(producer, THERE, HERE)
        assert world.known().state is ONGOING
        assert world.known().places == {HERE, THERE}
        assert world.known().start_ms == world.clock.now_ms()
        assert await world.end(producer, commit) == producer
        assert world.known().state is prepared
        assert world.prepared == ["x"]
        await world.complete()
        assert world.known().state is complete
        assert world.known().places == frozenset()


async def test_a_new_producer_fences_the_old_one(world):
    old = await world.init()
    new = await world.init()
    assert new == (old.producer_id, 1)
    for refused in (world.add(old, HERE), world.end(old), world.init(expected=old)):
        with pytest.raises(ProducerFenced):
            await refused
    await world.add(new, HERE)


async def test_a_new_producer_aborts_what_the_old_one_left_open(world):
    old = await world.init()
    await world.add(old, HERE)
    with pytest.raises(ConcurrentTransactions):
        await world.init()
    assert world.known().state is PREPARE_ABORT
    # The markers carry an epoch that nobody was given: late batches of the old one are refused by the logs.
    assert world.known().producer_epoch == 1
    with pytest.raises(ConcurrentTransactions):
        await world.init()
    with pytest.raises(ProducerFenced):
        await world.end(old)
    await world.complete()
    assert await world.init() == (old.producer_id, 2)


async def test_who_is_not_the_owner_is_told_so(world):
    producer = await world.init()
    other = Identity(7, 0)
    for refused in (world.add(other, HERE), world.end(other), world.end(producer, key="y")):
        with pytest.raises(InvalidProducerIdMapping):
            await refused
    with pytest.raises(ProducerFenced):
        await world.init(expected=other)
    with pytest.raises(ProducerFenced):
        await world.add(Identity(producer.producer_id, 1), HERE)


async def test_a_producer_recovers_with_its_epoch(world):
    first = await world.init()
    second = await world.init(expected=first)
    assert second == (first.producer_id, 1)
    assert await world.init(expected=first) == second, "a retry gets the same answer"
    third = await world.init(expected=second)
    assert third.producer_epoch == 2
    with pytest.raises(ProducerFenced):
        await world.init(expected=first)


async def test_epochs_run_out(world):
    await world.init()
    last = replace(world.known(), producer_epoch=MAX_EPOCH - 1)
    world.shard.replay(Change("x", last))
    renewed = await world.init(expected=last.identity)
    assert renewed == (101, 0)
    assert world.known().previous_producer_id == 100
    assert await world.init(expected=last.identity) == renewed, "a retry gets the same answer"
    world.shard.replay(Change("x", last))
    assert await world.init() == (102, 0)
    assert world.known().previous_producer_id == -1
    with pytest.raises(ProducerFenced):
        await world.init(expected=last.identity)


async def test_the_last_epoch_can_be_fenced(world):
    await world.init()
    last = replace(world.known(), producer_epoch=MAX_EPOCH - 1)
    world.shard.replay(Change("x", last))
    await world.add(last.identity, HERE)
    with pytest.raises(ConcurrentTransactions):
        await world.init()
    assert world.known().producer_epoch == MAX_EPOCH
    await world.complete()
    assert await world.init() == (101, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_timeout_out_of_bounds(world, timeout_ms):
    with pytest.raises(InvalidTransactionTimeout):
        await world.init(timeout_ms=timeout_ms)


async def test_ending_twice(world):
    producer = await world.init()
    for refused in (world.end(producer), world.end(producer, commit=False)):
        with pytest.raises(InvalidTxnState):
            await refused
    await world.add(producer, HERE)
    await world.end(producer)
    with pytest.raises(ConcurrentTransactions):
        await world.end(producer)
    with pytest.raises(InvalidTxnState):
        await world.end(producer, commit=False)
    with pytest.raises(ConcurrentTransactions):
        await world.add(producer, THERE)
    await world.complete()
    assert await world.end(producer) == producer
    with pytest.raises(InvalidTxnState):
        await world.end(producer, commit=False)


async def test_batches_are_verified(world):
    producer = await world.init()
    verify = world.shard.verify
    with pytest.raises(TransactionAbortable):
        verify("x", producer, HERE)
    await world.add(producer, HERE)
    verify("x", producer, HERE)
    with pytest.raises(TransactionAbortable):
        verify("x", producer, THERE)
    with pytest.raises(ProducerFenced):
        verify("x", Identity(producer.producer_id, 1), HERE)
    with pytest.raises(InvalidProducerIdMapping):
        verify("y", producer, HERE)
    await world.end(producer)
    with pytest.raises(ConcurrentTransactions):
        verify("x", producer, HERE)
    await world.complete()
    with pytest.raises(TransactionAbortable):
        verify("x", producer, HERE)


async def test_time_is_over(world):
    producer = await world.init(timeout_ms=30_000)
    await world.add(producer, HERE)
    world.pass_ms(30_000)
    assert world.known().state is ONGOING
    world.pass_ms(10_001)
    assert world.known().state is PREPARE_ABORT
    assert world.prepared == ["x"]
    with pytest.raises(ProducerFenced):
        await world.end(producer)
    await world.complete()
    assert await world.init() == (producer.producer_id, 2)


async def test_a_transaction_that_began_in_the_future_of_another_broker_is_over_in_its_time(world):
    producer = await world.init(timeout_ms=30_000)
    world.clock.set(world.clock.now_ms() + 3_000_000)  # that broker's clock
    await world.add(producer, HERE)
    world.clock.set(world.clock.now_ms() - 3_000_000)  # and ours
    await world.crash()
    world.pass_ms(30_000)
    assert world.known().state is ONGOING
    world.pass_ms(10_001)
    assert world.known().state is PREPARE_ABORT


async def test_time_is_watched_only_while_a_transaction_is_open(world):
    producer = await world.init()
    idle = len(world.timers)
    await world.add(producer, HERE)
    assert len(world.timers) == idle + 1
    await world.end(producer)
    await world.complete()
    world.pass_ms(20_000)
    assert len(world.timers) == idle


async def test_an_unused_id_expires(world):
    producer = await world.init()
    await world.init(key="busy")
    await world.add(await world.init(key="busy"), HERE, key="busy")
    world.config = replace(world.config, max_timeout_ms=10**10, abort_interval_ms=10**10)
    world.pass_ms(world.config.id_expiration_ms + world.config.expiry_interval_ms)
    assert list(world.shard.transactions) == ["busy"]
    with pytest.raises(InvalidProducerIdMapping):
        await world.add(producer, HERE)
    await world.crash()
    assert list(world.shard.transactions) == ["busy"]


async def test_a_decided_transaction_is_finished_after_a_crash(world):
    one, two = await world.init(key="one"), await world.init(key="two")
    await world.add(one, HERE, key="one")
    await world.add(two, HERE, THERE, key="two")
    await world.end(one, key="one")
    before = world.recorded()
    await world.crash()
    assert world.recorded() == before
    assert world.prepared == ["one"]
    await world.complete("one")
    assert world.known("one").state is COMPLETE_COMMIT
    world.pass_ms(80_000)
    assert world.known("two").state is PREPARE_ABORT


async def test_nothing_changes_when_the_log_fails(world):
    producer = await world.init()
    await world.add(producer, HERE)
    world.journal.fail = KafkaStorageError()
    with pytest.raises(NotCoordinator):
        await world.end(producer)
    assert world.known().state is ONGOING
    assert world.prepared == []
    world.pass_ms(80_000)
    assert world.known().state is ONGOING
    world.journal.fail = None
    world.pass_ms(1_000)
    assert world.known().state is PREPARE_ABORT


# ---------------------------------------------------------------------- KIP-890


async def test_every_end_bumps_the_epoch(world):
    first = await world.init()
    await world.add(first, HERE)
    second = await world.end(first, version=2)
    assert second == (first.producer_id, 1)
    with pytest.raises(ConcurrentTransactions):
        await world.end(first, version=2)
    with pytest.raises(InvalidTxnState):
        await world.end(first, commit=False, version=2)
    await world.complete()
    assert await world.end(first, version=2) == second, "a retry gets the same answer"
    await world.add(second, HERE)
    with pytest.raises(ProducerFenced):
        await world.end(first, version=2)
    assert world.known().state is ONGOING, "a late EndTxn does not touch the next transaction"
    third = await world.end(second, version=2)
    await world.complete()
    with pytest.raises(ProducerFenced):
        await world.end(first, version=2)
    assert await world.end(second, version=2) == third


async def test_an_abort_before_any_batch_arrived(world):
    first = await world.init()
    with pytest.raises(InvalidTxnState):
        await world.end(first, version=2)
    second = await world.end(first, commit=False, version=2)
    assert second.producer_epoch == 1
    await world.complete()
    third = await world.end(second, commit=False, version=2)
    assert third.producer_epoch == 2


async def test_an_end_with_the_last_epoch(world):
    await world.init()
    last = replace(world.known(), producer_epoch=MAX_EPOCH - 1)
    world.shard.replay(Change("x", last))
    await world.add(last.identity, HERE)
    told = await world.end(last.identity, version=2)
    assert told == (101, 0)
    assert world.known().identity == (100, MAX_EPOCH)
    await world.crash()
    await world.complete()
    assert world.known().identity == told
    assert await world.end(last.identity, version=2) == told
    await world.add(told, HERE)


async def test_a_timed_out_producer_is_fenced_for_good(world):
    producer = await world.init()
    await world.add(producer, HERE)
    world.pass_ms(80_000)
    await world.complete()
    for commit in (True, False):
        with pytest.raises(ProducerFenced):
            await world.end(producer, commit, version=2)


# ---------------------------------------------------------------------- records


@pytest.mark.parametrize("state", list(TransactionState))
def test_records_by_the_byte(state):
    places = frozenset({("b", 2), ("a", 1), ("a", 0)}) if TABLE[state].has_places else frozenset()
    plain = Transaction(9, 3, 60_000, state, places, start_ms=5, update_ms=6)
    key, value = encode_change(Change("x", plain))
    assert key == b"\0\0\0\1x"
    listed = (
        b"\0\0\0\2\0\1a\0\0\0\2\0\0\0\0\0\0\0\1\0\1b\0\0\0\1\0\0\0\2" if places else b"\0\0\0\0"
    )
    assert value == (
        b"\0\0"
        + (9).to_bytes(8, "big")
        + b"\0\3"
        + (60_000).to_bytes(4, "big")
        + bytes([state.number])
        + listed
        + (6).to_bytes(8, "big")
        + (5).to_bytes(8, "big")
    )
    assert decode_change(key, value) == Change("x", plain)
    tagged = replace(plain, previous_producer_id=4, client_version=2)
    key, value = encode_change(Change("x", tagged))
    assert value[:2] == b"\0\1"
    assert decode_change(key, value) == Change("x", tagged)


def test_tombstones_and_foreign_records():
    assert encode_change(Change("x", None)) == (b"\0\0\0\1x", None)
    assert decode_change(b"\0\0\0\1x", None) == Change("x", None)
    assert decode_change(b"\0\7\0\1x", b"") is None
    good = encode_change(Change("x", Transaction(9, 3, 1, EMPTY)))[1]
    for value in (b"", b"\0\7", good[:-1], good[:16] + b"\x63" + good[17:]):
        with pytest.raises(ProtocolError):
            decode_change(b"\0\0\0\1x", value)


async def test_an_id_expires_late_rather_than_never(world):
    await world.init()
    world.journal.fail = NotEnoughReplicas()
    world.pass_ms(world.config.id_expiration_ms + 2 * world.config.expiry_interval_ms)
    assert "x" in world.shard.transactions
    world.journal.fail = None
    world.pass_ms(1_000)
    assert "x" not in world.shard.transactions
