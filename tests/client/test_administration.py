"""Administration of transactions, replicas, users and quotas, against a real broker."""

from collections.abc import Callable, Iterator

import pytest

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.client.admin_security import Acl, AclFilter
from tidelog.errors import (
    KafkaError,
    ProducerUnusable,
    SecurityDisabled,
    TransactionalIdNotFound,
    UnsupportedVersion,
)


@pytest.fixture
def open_producer(
    bootstrap: str, topic: str, unique: Callable[[str], str]
) -> Iterator[tuple[Producer, str]]:
    """A producer with an open transaction, and its transactional id."""
    name = unique("txn")
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(topic, b"x", partition=1)
        producer.flush()
        yield producer, name


def test_transactions_are_listed_and_described(
    admin: Admin, topic: str, open_producer: tuple[Producer, str]
) -> None:
    producer, name = open_producer
    ongoing = admin.list_transactions(states=["Ongoing"])
    assert name in {each.transactional_id for each in ongoing}
    found = admin.describe_transactions([name])[name]
    assert found.state == "Ongoing"
    assert found.partitions == (TopicPartition(topic, 1),)
    assert found.timeout_ms == 60_000
    assert found.start_time_ms > 0
    only = admin.list_transactions(producer_ids=[found.producer_id])
    assert [each.transactional_id for each in only] == [name]
    producer.commit_transaction()
    assert name not in {
        each.transactional_id for each in admin.list_transactions(states=["Ongoing"])
    }
    with pytest.raises(TransactionalIdNotFound, match="nobody"):
        admin.describe_transactions(["nobody"])


def test_a_producer_is_fenced_from_outside(
    bootstrap: str, admin: Admin, topic: str, open_producer: tuple[Producer, str]
) -> None:
    producer, name = open_producer
    admin.fence_producers([name])
    with pytest.raises(ProducerUnusable, match=name):
        producer.commit_transaction()
    (left,) = admin.describe_producers([TopicPartition(topic, 1)]).values()
    while any(each.transaction_start_offset >= 0 for each in left):  # Kafka's markers come later
        (left,) = admin.describe_producers([TopicPartition(topic, 1)]).values()


def test_producers_are_described_and_a_transaction_is_aborted_in_its_partition(
    bootstrap: str, admin: Admin, topic: str, open_producer: tuple[Producer, str]
) -> None:
    tp = TopicPartition(topic, 1)
    (found,) = admin.describe_producers([tp])[tp]
    assert found.transaction_start_offset == 0
    assert found.last_sequence == 0
    with pytest.raises(TransactionalIdNotFound, match="began at: 0"):
        admin.abort_transaction(tp, 7)
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tp])
        assert consumer.poll(timeout=0.1) == []
        admin.abort_transaction(tp, 0)
        with Producer(bootstrap_servers=bootstrap) as other:
            other.send(topic, b"seen", partition=1)
        assert [each.value for each in consumer.poll(timeout=60)] == [b"seen"]


def test_log_dirs(bootstrap: str, admin: Admin, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x" * 1000, partition=2).result()
    ((broker, dirs),) = admin.describe_log_dirs().items()
    assert broker in {each.id for each in admin.describe_cluster().brokers}
    (here,) = [each for each in dirs if TopicPartition(topic, 2) in each.replicas]
    assert here.error is None
    assert here.replicas[TopicPartition(topic, 2)].size > 1000
    assert here.total_bytes >= here.usable_bytes > 0


def offered(ask: Callable[[], object]) -> None:
    """Skip where the broker has no such API."""
    try:
        ask()
    except UnsupportedVersion as error:
        pytest.skip(str(error))


def test_leaders_are_elected(admin: Admin, topic: str) -> None:
    offered(lambda: admin.elect_leaders([TopicPartition(topic, 0)]))
    assert admin.elect_leaders([TopicPartition(topic, 0)]) == {}
    (error,) = admin.elect_leaders([TopicPartition(topic, 99)]).values()
    assert isinstance(error, KafkaError)


def test_partitions_are_reassigned(admin: Admin, topic: str) -> None:
    offered(admin.list_partition_reassignments)
    here = admin.describe_topics([topic])[topic].partitions[0].replicas
    admin.alter_partition_reassignments({TopicPartition(topic, 0): here})
    assert TopicPartition(topic, 0) not in admin.list_partition_reassignments()
    with pytest.raises(KafkaError, match=f"{topic}-0"):
        admin.alter_partition_reassignments({TopicPartition(topic, 0): [9999]})
    with pytest.raises(KafkaError):
        admin.alter_partition_reassignments({TopicPartition(topic, 0): None})


def test_quotas(admin: Admin, unique: Callable[[str], str]) -> None:
    offered(admin.describe_client_quotas)
    entity = {"client-id": unique("greedy")}
    admin.alter_client_quotas(entity, {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6})
    expected = {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}
    while admin.describe_client_quotas(entity) != [(entity, expected)]:
        pass
    admin.alter_client_quotas(entity, dict.fromkeys(expected))
    while admin.describe_client_quotas({"client-id": "*"}):
        pass


def test_users(admin: Admin, unique: Callable[[str], str]) -> None:
    offered(admin.describe_scram_users)
    user = unique("alice")
    admin.set_scram_password(user, "secret", mechanism="SCRAM-SHA-256", iterations=4096)
    while user not in (found := admin.describe_scram_users()):
        pass
    ((mechanism, iterations),) = ((each.mechanism, each.iterations) for each in found[user])
    assert (mechanism, iterations) == ("SCRAM-SHA-256", 4096)
    admin.delete_scram_password(user, mechanism="SCRAM-SHA-256")
    while user in admin.describe_scram_users([user]):
        pass
    with pytest.raises(ValueError, match="SCRAM-SHA-512"):
        admin.set_scram_password(user, "x", mechanism="PLAIN")


def test_permissions(admin: Admin, topic: str) -> None:
    rule = Acl("topic", topic, "User:alice", "read")
    try:
        offered(lambda: admin.create_acls([rule]))
    except SecurityDisabled as error:
        pytest.skip(f"the broker has no authorizer: {error}")
    while admin.describe_acls(AclFilter(resource_name=topic)) != [rule]:
        pass
    assert admin.delete_acls(AclFilter("topic", topic)) == [rule]
    with pytest.raises(ValueError, match="'reed' is not one of"):
        admin.create_acls([Acl("topic", topic, "User:alice", "reed")])
