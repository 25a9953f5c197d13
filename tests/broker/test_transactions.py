"""The transactional APIs over real logs: every step, every version, and what readers see."""

import asyncio
import shutil
from dataclasses import replace

import pytest
from hot_path import TOPIC_ID, batch, produce_request
from transaction_rig import TransactionRig

from tidelog.cluster.partition import Partition
from tidelog.coordination.transactions.transaction import Identity
from tidelog.errors import (
    ConcurrentTransactions,
    FencedInstanceId,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    KafkaStorageError,
    OperationNotAttempted,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

KAFKA_3, KAFKA_4 = 1, 2
"""The two ways: partitions are added beforehand, or by the batches themselves (KIP-890)."""


@pytest.fixture
async def rig(tmp_path):
    made = TransactionRig(tmp_path)
    made.start()
    yield made
    await made.stop()


def init_request(key):
    return InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=60_000)


async def transact(rig, producer, values, way=KAFKA_3, *, commit=True, offset=None, sequence=0):
    """A whole transaction that writes a value to each partition; returns who the producer is then."""
    if way == KAFKA_3:
        assert await rig.add_partitions(producer, 0, 1) == 0
    for index, value in enumerate(values):
        version = 12 if way == KAFKA_4 else 11
        code = await rig.produce(producer, index, value, sequence=sequence, version=version)
        assert code == 0
    if offset is not None:
        if way == KAFKA_3:
            assert await rig.add_offsets(producer) == 0
        assert await rig.commit_offset(producer, offset, version=5 if way == KAFKA_4 else 3) == 0
    ended = await rig.end(producer, commit, version=5 if way == KAFKA_4 else 4)
    assert ended.error_code == 0
    await rig.settle()
    return Identity(ended.producer_id, ended.producer_epoch) if way == KAFKA_4 else producer


@pytest.mark.parametrize("way", [KAFKA_3, KAFKA_4])
async def test_readers_of_committed_records_see_whole_transactions(rig, way):
    producer = await rig.init()
    producer = await transact(rig, producer, (b"a", b"b"), way)
    second = 0 if way == KAFKA_4 else 1  # every epoch begins with sequence 0
    third = 0 if way == KAFKA_4 else 2
    producer = await transact(rig, producer, (b"no", b"no"), way, commit=False, sequence=second)
    producer = await transact(rig, producer, (b"c", b"d"), way, sequence=third)
    assert await rig.read() == [[b"a", b"c"], [b"b", b"d"]]
    assert await rig.read(isolation=0) == [[b"a", b"no", b"c"], [b"b", b"no", b"d"]]
    assert rig.partition().log.last_stable_offset == rig.partition().log_end_offset
    if way == KAFKA_4:
        assert producer.producer_epoch == 3


@pytest.mark.parametrize("way", [KAFKA_3, KAFKA_4])
@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_count_when_the_transaction_is_committed(rig, way, commit):
    producer = await rig.init()
    producer = await transact(rig, producer, (b"a", b"b"), way, offset=5)
    assert await rig.offset() == (5, 0)
    sequence = 0 if way == KAFKA_4 else 1
    await rig.add_offsets(producer)
    assert await rig.commit_offset(producer, 9) == 0
    assert await rig.offset() == (5, 0)
    assert await rig.offset(require_stable=True) == (-1, UnstableOffsetCommit.code)
    await transact(rig, producer, (b"c", b"d"), way, commit=commit, sequence=sequence)
    assert await rig.offset(require_stable=True) == ((9 if commit else 5), 0)


async def test_an_open_transaction_holds_back_readers_until_it_ends(rig):
    producer = await rig.init()
    await rig.add_partitions(producer, 0)
    await rig.produce(producer, 0, b"a")
    await rig.ask(produce_request(batch(b"plain")), 9)
    assert (await rig.read())[0] == []
    assert (await rig.read(isolation=0))[0] == [b"a", b"plain"]
    await rig.end(producer)
    await rig.settle()
    assert (await rig.read())[0] == [b"a", b"plain"]


@pytest.mark.parametrize(("version", "code"), [(9, InvalidTxnState), (11, TransactionAbortable)])
async def test_a_batch_outside_of_its_transaction_is_refused(rig, version, code):
    producer = await rig.init()
    assert await rig.produce(producer, 0, b"a", version=version) == code.code
    await rig.add_partitions(producer, 0)
    assert await rig.produce(producer, 1, b"a", version=version) == code.code
    assert await rig.produce(producer, 0, b"a", version=version) == 0
    await rig.end(producer)
    await rig.settle()
    assert await rig.produce(producer, 0, b"late", sequence=1, version=version) == code.code
    assert rig.partition().log.last_stable_offset == rig.partition().log_end_offset
    refused = await rig.produce(producer, 0, b"a", key=None, version=version)
    assert refused == TransactionalIdAuthorizationFailed.code
    refused = await rig.produce(producer, 0, b"a", key="unknown", version=version)
    assert refused == InvalidProducerIdMapping.code


async def test_a_zombie_of_kip_890_cannot_touch_the_next_transaction(rig):
    first = await rig.init()
    second = await transact(rig, first, (b"a", b"b"), KAFKA_4)
    again = await rig.end(first, version=5)
    assert Identity(again.producer_id, again.producer_epoch) == second, "a retry is answered again"
    assert await rig.produce(second, 0, b"c", version=12) == 0
    for commit in (True, False):
        assert (await rig.end(first, commit, version=5)).error_code == ProducerFenced.code
    assert await rig.produce(first, 0, b"z", version=12) == InvalidProducerEpoch.code
    assert (await rig.read())[0] == [b"a"]


async def test_a_batch_waits_for_the_end_of_the_transaction_before(tmp_path):
    rig = TransactionRig(tmp_path, flush_messages=1)
    rig.start()
    producer = await rig.init()
    for number in range(3):
        for index in (0, 1):
            assert await rig.produce(producer, index, b"%d" % number, version=12) == 0
        ended = await rig.end(producer, version=5)
        # No pause: the markers of the transaction before are on their way to the disk.
        producer = Identity(ended.producer_id, ended.producer_epoch)
    await rig.init()
    assert await rig.read() == [[b"0", b"1", b"2"]] * 2
    await rig.stop()
    await rig.flusher.settle()


@pytest.mark.parametrize("version", range(6))
async def test_fenced_in_the_words_of_the_version(rig, version):
    old = await rig.init(version=version)
    await rig.init()
    fenced = ProducerFenced.code if version >= 2 else InvalidProducerEpoch.code
    if version <= 3:
        assert await rig.add_partitions(old, 0, version=version) == fenced
    if version <= 4:
        assert await rig.add_offsets(old, version=version) == fenced
    assert (await rig.end(old, version=version)).error_code == fenced
    if version >= 3:
        request = InitProducerIdRequest(
            transactional_id="x",
            transaction_timeout_ms=1,
            producer_id=old.producer_id,
            producer_epoch=old.producer_epoch,
        )
        fenced = ProducerFenced.code if version >= 4 else InvalidProducerEpoch.code
        assert (await rig.ask(request, version)).error_code == fenced


async def test_a_successor_takes_over_at_once(rig):
    old = await rig.init()
    await rig.add_partitions(old, 0)
    await rig.produce(old, 0, b"zombie")
    new = await rig.init()
    assert new == (old.producer_id, old.producer_epoch + 2)
    assert (await rig.end(old)).error_code == ProducerFenced.code
    assert await rig.produce(old, 0, b"late", sequence=1) == InvalidProducerEpoch.code
    assert (await rig.read())[0] == []
    await rig.add_partitions(new, 0)
    assert await rig.produce(new, 0, b"mine") == 0


async def test_requests_without_sense(rig):
    for asked in (
        InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1),
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1, producer_id=3),
    ):
        assert (await rig.ask(asked, 4)).error_code == InvalidRequest.code
    producer = await rig.init()
    assert await rig.add_partitions(producer, 0, key="y") == InvalidProducerIdMapping.code
    assert (await rig.end(producer, key="")).error_code == InvalidRequest.code


async def test_partitions_are_added_all_or_none(rig):
    producer = await rig.init()
    topics = [AddPartitionsToTxnTopic(name="events", partitions=[0, 7])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    (topic,) = (await rig.ask(request, 3)).results_by_topic_v3_and_below
    codes = [each.partition_error_code for each in topic.results_by_partition]
    assert codes == [OperationNotAttempted.code, UnknownTopicOrPartition.code]
    described = await describe(rig, "x")
    assert (described.transaction_state, described.topics) == ("Empty", [])


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_add_and_verify_several_transactions(rig, version):
    one, two = await rig.init("one"), await rig.init("two")

    async def ask(verify_only):
        asked = [
            AddPartitionsToTxnTransaction(
                transactional_id=key,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name="events", partitions=[0])],
            )
            for key, producer in (("one", one), ("two", two), ("three", two))
        ]
        told = await rig.ask(AddPartitionsToTxnRequest(transactions=asked), version)
        return [
            each.topic_results[0].results_by_partition[0].partition_error_code
            for each in told.results_by_transaction
        ]

    outside = TransactionAbortable.code if version >= 5 else InvalidTxnState.code
    unknown = InvalidProducerIdMapping.code
    assert await ask(verify_only=True) == [outside, outside, unknown]
    assert await ask(verify_only=False) == [0, 0, unknown]
    assert await ask(verify_only=True) == [0, 0, unknown]


async def test_offsets_of_another_generation_are_refused(rig):
    producer = await rig.init()
    refused = await rig.commit_offset(producer, 3)
    assert refused == InvalidTxnState.code, "AddOffsetsToTxn comes first"
    assert await rig.add_offsets(producer) == 0
    refused = await rig.commit_offset(producer, 3, generation_id=1, member_id="m")
    assert refused == IllegalGeneration.code
    assert await rig.commit_offset(producer, 3) == 0
    refused = await rig.commit_offset(producer, 3, generation_id=1, member_id="m")
    assert refused == UnknownMemberId.code
    refused = await rig.commit_offset(producer, 3, group_instance_id="i", member_id="m")
    assert refused in (UnknownMemberId.code, FencedInstanceId.code, 0)
    old = producer
    await rig.init()
    assert await rig.commit_offset(old, 4) == InvalidProducerEpoch.code
    assert await rig.offset(require_stable=True) == (-1, 0)


async def test_time_over(rig):
    producer = await rig.init(transaction_timeout_ms=10_000)
    await rig.add_partitions(producer, 0)
    await rig.produce(producer, 0, b"slow")
    for _ in range(3):
        await rig.timers.advance(10_000)
        await rig.settle()
    assert (await describe(rig, "x")).transaction_state == "CompleteAbort"
    assert rig.partition().log.last_stable_offset == rig.partition().log_end_offset
    assert (await rig.end(producer)).error_code == ProducerFenced.code
    assert (await rig.read())[0] == []


# ---------------------------------------------------------------------- administration


async def describe(rig, key):
    told = await rig.ask(DescribeTransactionsRequest(transactional_ids=[key]), 0)
    return told.transaction_states[0]


async def test_transactions_are_described(rig):
    assert (await describe(rig, "x")).error_code == TransactionalIdNotFound.code
    assert (await describe(rig, "")).error_code == InvalidRequest.code
    producer = await rig.init()
    await rig.add_partitions(producer, 1, 0)
    described = await describe(rig, "x")
    assert described.transaction_state == "Ongoing"
    assert described.transaction_start_time_ms == rig.clock.now_ms()
    assert (described.producer_id, described.producer_epoch) == producer
    assert [(each.topic, each.partitions) for each in described.topics] == [("events", [0, 1])]
    assert (await describe(rig, "y")).error_code == TransactionalIdNotFound.code


async def test_transactions_are_listed(rig):
    one, two = await rig.init("one"), await rig.init("two")
    await rig.add_partitions(two, 0, key="two")
    rig.clock.advance(500)

    async def listed(version=2, **filters):
        told = await rig.ask(ListTransactionsRequest(**filters), version)
        assert told.error_code == 0
        return {each.transactional_id: each.transaction_state for each in told.transaction_states}

    assert await listed() == {"one": "Empty", "two": "Ongoing"}
    assert await listed(state_filters=["Empty", "Nonsense"]) == {"one": "Empty"}
    assert list(await listed(producer_id_filters=[two.producer_id])) == ["two"]
    assert list(await listed(version=1, duration_filter=400)) == ["two"]
    assert await listed(version=1, duration_filter=600) == {}
    assert list(await listed(transactional_id_pattern="o.*")) == ["one"]
    told = await rig.ask(ListTransactionsRequest(state_filters=["Nonsense"]), 0)
    assert told.unknown_state_filters == ["Nonsense"]
    assert one.producer_id != two.producer_id


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        ("jobs:7", "jobs.*"),
        ("jobs:7", "jobs:[0-9]+"),
        ("app/orders-1", ".*orders-1"),
        ("app/orders-1", "app[^a-z]orders.*"),
        ("two words", "two.words"),
        ("two words", r"two\swords"),
        ("two words", "(two words|three)"),
        ("zahlungen-für-größe", "zahlungen-.*-größe"),
        ("zahlungen-für-größe", "(?i)ZAHLUNGEN-FÜR.*"),
        ("обмен", "[а-я]+"),
        ("a@b=c;d|e", r"a@b=c;d\|e"),
    ],
)
async def test_every_id_can_be_found_by_a_pattern(rig, key, pattern):
    """An id may hold any character, unlike a topic's name."""
    await rig.init(key)
    await rig.init("another")
    told = await rig.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert [each.transactional_id for each in told.transaction_states] == [key]


async def test_the_coordinator_is_found(rig):
    request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=1)
    (told,) = (await rig.ask(request, 4)).coordinators
    assert (told.error_code, told.node_id) == (0, 1)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_hanging_transaction_is_aborted_by_hand(rig, version):
    producer = await rig.init()
    await rig.add_partitions(producer, 0)
    await rig.produce(producer, 0, b"hanging")
    asked = DescribeProducersRequest(topics=[TopicRequest(name="events", partition_indexes=[0])])
    (found,) = (await rig.ask(asked, 0)).topics[0].partitions[0].active_producers
    assert found.current_txn_start_offset == 0
    marker = WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(found.coordinator_epoch, 0),
        topics=[WritableTxnMarkerTopic(name="events", partition_indexes=[0, 9])],
    )
    (told,) = (await rig.ask(WriteTxnMarkersRequest(markers=[marker]), version)).markers
    codes = [each.error_code for each in told.topics[0].partitions]
    assert codes == [0, UnknownTopicOrPartition.code]
    (found,) = (await rig.ask(asked, 0)).topics[0].partitions[0].active_producers
    assert found.current_txn_start_offset == -1
    assert (await rig.read())[0] == []
    assert rig.partition().log.last_stable_offset == 2


# ---------------------------------------------------------------------- crashes


@pytest.mark.parametrize("way", [KAFKA_3, KAFKA_4])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_crash_after_every_write(tmp_path, monkeypatch, way, commit):
    """The disk is photographed after every append to any log, and a broker is started from each picture."""
    pictures = []
    append = Partition.append

    def photographed(self, *args, **kwargs):
        appended = append(self, *args, **kwargs)
        picture = tmp_path / f"picture-{len(pictures)}"
        shutil.copytree(tmp_path / "data", picture)
        pictures.append((picture, tuple(acknowledged)))
        return appended

    acknowledged = []
    rig = TransactionRig(tmp_path / "data")
    rig.start()
    producer = await rig.init()
    producer = await transact(rig, producer, (b"1", b"1"), way, offset=1)
    monkeypatch.setattr(Partition, "append", photographed)
    sequence = 0 if way == KAFKA_4 else 1
    await transact(rig, producer, (b"2", b"2"), way, commit=commit, offset=2, sequence=sequence)
    acknowledged.append("ended")
    await rig.init()
    await rig.stop()
    monkeypatch.undo()
    # Each of: first partition (and second), two batches, offsets, outcome, three markers, completion, next epoch.
    assert len(pictures) >= 11
    outcomes = [await _after_the_crash(picture) for picture, _ in pictures]
    assert outcomes == sorted(outcomes), "once committed, it stays so"
    assert outcomes[0] is False
    assert outcomes[-1] is commit
    for (_, heard), outcome in zip(pictures, outcomes, strict=True):
        assert "ended" not in heard or outcome is commit


async def _after_the_crash(picture) -> bool:
    """Whether the second transaction is there, wholly, after a restart and a successor."""
    rig = TransactionRig(picture)
    rig.start()
    await rig.settle()
    for seen in await rig.read():
        assert seen in ([b"1"], [b"1", b"2"])
    whole = await rig.read()
    assert (
        whole[0] == whole[1]
        or rig.partition().log.last_stable_offset < rig.partition().log_end_offset
    )
    successor = await rig.init()
    await rig.settle()
    assert rig.partition(0).log.last_stable_offset == rig.partition(0).log_end_offset
    assert rig.partition(1).log.last_stable_offset == rig.partition(1).log_end_offset
    seen = await rig.read()
    is_there = seen == [[b"1", b"2"]] * 2
    assert is_there or seen == [[b"1"]] * 2
    assert await rig.offset(require_stable=True) == ((2 if is_there else 1), 0)
    await transact(rig, successor, (b"3", b"3"), offset=3)
    assert await rig.read() == [[*values, b"3"] for values in seen]
    assert await rig.offset(require_stable=True) == (3, 0)
    await rig.stop()
    return is_there


async def test_markers_are_written_when_the_disk_has_recovered(rig, monkeypatch, caplog):
    producer = await rig.init()
    await rig.add_partitions(producer, 0, 1)
    await rig.produce(producer, 0, b"a")
    await rig.produce(producer, 1, b"b")
    append = Partition.append
    broken = rig.partition(1)

    def fail(self, *args, **kwargs):
        if self is broken:
            raise KafkaStorageError
        return append(self, *args, **kwargs)

    monkeypatch.setattr(Partition, "append", fail)
    assert (await rig.end(producer)).error_code == 0
    await rig.settle()
    assert (await describe(rig, "x")).transaction_state == "PrepareCommit"
    for busy in (await rig.end(producer), await rig.ask(init_request("x"), 4)):
        assert busy.error_code == ConcurrentTransactions.code
    monkeypatch.undo()
    await rig.timers.advance(1_000)
    await rig.settle()
    assert (await describe(rig, "x")).transaction_state == "CompleteCommit"
    assert await rig.read() == [[b"a"], [b"b"]]


@pytest.mark.parametrize("way", [KAFKA_3, KAFKA_4])
async def test_nobody_waits_for_a_broken_disk(rig, monkeypatch, way):
    producer = await rig.init()
    if way == KAFKA_3:
        await rig.add_partitions(producer, 0)
    await rig.produce(producer, 0, b"a", version=12 if way == KAFKA_4 else 11)
    append = Partition.append
    broken = rig.partition(0)

    def fail(self, *args, **kwargs):
        if self is broken:
            raise KafkaStorageError
        return append(self, *args, **kwargs)

    monkeypatch.setattr(Partition, "append", fail)
    # The abort that this leads to cannot be carried out.
    assert (await rig.ask(init_request("x"), 4)).error_code == ConcurrentTransactions.code
    monkeypatch.undo()
    await rig.timers.advance(1_000)
    await rig.settle()
    await rig.init()
    assert (await rig.read())[0] == []


async def test_a_deleted_topic_does_not_hold_up_the_end(rig):
    producer = await rig.init()
    await rig.add_partitions(producer, 0, 1)
    for index in (0, 1):
        rig.services.partitions.remove("events", index)
    topics = {name: topic for name, topic in rig.image.topics.items() if name != "events"}
    rig.image = replace(rig.image, topics=topics)
    await rig.end(producer)
    await rig.settle()
    assert (await describe(rig, "x")).transaction_state == "CompleteCommit"


async def test_a_partition_that_is_not_here_yet_gets_its_marker_later(rig):
    producer = await rig.init()
    await rig.add_partitions(producer, 0, 1)
    rig.services.partitions.remove("events", 1)
    await rig.end(producer)
    await rig.settle()
    assert (await describe(rig, "x")).transaction_state == "PrepareCommit"
    rig.add("events", 1, TOPIC_ID)
    await rig.timers.advance(1_000)
    await rig.settle()
    assert (await describe(rig, "x")).transaction_state == "CompleteCommit"


async def test_a_stop_in_the_middle(tmp_path):
    rig = TransactionRig(tmp_path)
    rig.start()
    producer = await rig.init()
    await rig.add_partitions(producer, 0)
    ended = asyncio.ensure_future(rig.end(producer))
    await asyncio.sleep(0)
    await rig.stop()
    await asyncio.gather(ended, return_exceptions=True)
    again = TransactionRig(tmp_path)
    again.start()
    await again.settle()
    assert (await describe(again, "x")).transaction_state in ("CompleteCommit", "Ongoing")
    await again.stop()
