"""A cluster that a test takes apart: brokers are killed, hang, lead and stop leading."""

import confluent_kafka
import pytest

from tidelog.errors import NotLeaderOrFollower
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.faults

DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(3, {"replica.lag.time.max.ms": "1500"}).start()
    yield made
    made.close()


@pytest.fixture
def topic(cluster, request):
    name = cluster.topic(request.node.name.partition("[")[0])
    cluster.wait_in_sync(name)
    yield name
    for each in cluster.brokers:
        each.resume()
        if not each.running:
            each.start()
        each.faults.clear()


def values(cluster, topic):
    return [each.value for each in cluster.messages(topic)]


def producer_of(cluster):
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
        }
    )


def send(producer, topic, *some):
    for each in some:
        producer.produce(topic, each, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def test_another_broker_leads_when_the_leader_is_killed(cluster, topic):
    producer = producer_of(cluster)
    send(producer, topic, b"a")
    killed = cluster.broker_of(topic)
    killed.kill()
    send(producer, topic, b"b")
    assert cluster.broker_of(topic) is not killed
    assert values(cluster, topic) == [b"a", b"b"]
    killed.restart()
    cluster.wait_in_sync(topic)
    assert cluster.in_sync(topic) == [0, 1, 2]


def test_a_leader_is_moved_under_a_producer(cluster, topic):
    producer = producer_of(cluster)
    seen = []
    for number in range(4):
        send(producer, topic, b"%d" % number)
        seen.append(cluster.move_leader(topic, to=number % 3))
    assert seen == [0, 1, 2, 0]
    before = cluster.leader(topic)
    assert cluster.move_leader(topic) != before
    assert values(cluster, topic) == [b"0", b"1", b"2", b"3"]


def test_faults_are_those_of_one_broker(cluster, topic):
    leader = cluster.broker_of(topic)
    others = [each for each in cluster.brokers if each is not leader]
    mine = leader.faults.fail("Produce", NotLeaderOrFollower, times=2)
    theirs = [each.faults.drop("Produce", times=None) for each in others]
    send(producer_of(cluster), topic, b"a")
    assert mine.struck == 2
    assert [each.struck for each in theirs] == [0, 0]
    assert values(cluster, topic) == [b"a"]


def test_followers_go_on_while_clients_meet_faults(cluster, topic):
    leader = cluster.broker_of(topic)
    leader.faults.drop("Fetch", times=None)
    send(producer_of(cluster), topic, b"a")  # acks=all, so the followers have fetched it
    assert cluster.in_sync(topic) == [0, 1, 2]


def test_a_follower_that_hangs_leaves_the_ones_in_sync(cluster):
    topic = cluster.topic("hanging", configs={"min.insync.replicas": 2})
    cluster.wait_in_sync(topic)
    leader = cluster.leader(topic)
    follower = next(each for each in cluster.brokers if each.id != leader)
    follower.pause()
    try:
        cluster.produce(topic, "a")  # waits until it is out
        assert follower.id not in cluster.in_sync(topic)
    finally:
        follower.resume()
    cluster.wait_in_sync(topic)
    assert values(cluster, topic) == [b"a"]


def test_what_cannot_be_is_told(cluster, topic):
    with pytest.raises(ValueError, match="none other can lead it"):
        cluster.move_leader(topic, to=7)
    with pytest.raises(ValueError, match="a cluster of 0 brokers"):
        Cluster(0)


def test_the_fixture(suite):
    suite(
        """
        def test_failover(tidelog_cluster):
            cluster = tidelog_cluster(2, num_partitions=4)
            assert cluster.admin.describe_broker_configs(1)["num.partitions"].value == "4"
            topic = cluster.topic("orders")
            cluster.produce(topic, "a")
            cluster.broker_of(topic).kill()
            assert [each.value for each in cluster.messages(topic)] == [b"a"]
        """
    ).assert_outcomes(passed=1)
