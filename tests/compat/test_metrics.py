"""What a broker tells of itself after real clients have used it: exact counts, and `promtool check metrics`."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.testing.local_broker import LocalBroker

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from scraping import Scraped, page, scrape  # noqa: E402

SETTINGS = {
    "metrics.listener": "127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "client.telemetry.metrics": "*",
    "client.telemetry.interval.ms": "200",
}
_PATIENCE_S = 90.0


def pages_of(broker: LocalBroker) -> str:
    """Where the pages are: the broker says it when it is ready."""
    return re.search(r"http://(\S+)/metrics", until(broker.log, lambda text: "/metrics" in text))[1]


def until(look: Callable, fits: Callable):
    """Look again and again."""
    deadline = time.monotonic() + _PATIENCE_S
    while not fits(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def used() -> Iterator[tuple[LocalBroker, str]]:
    """A broker that clients have used: `orders` has 60 messages, of which the group `readers` has read 40."""
    with LocalBroker(settings=SETTINGS) as broker:
        config = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(config)
        for done in admin.create_topics(
            [NewTopic("orders", 2, 1), NewTopic("idle", 1, 1)]
        ).values():
            done.result()
        producer = ck.Producer({**config, "linger.ms": 5, "enable.metrics.push": True})
        for number in range(60):
            producer.produce("orders", b"x" * 100, partition=number % 2)
        assert producer.flush(60) == 0
        consumer = ck.Consumer(
            {
                **config,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.metrics.push": True,
            }
        )
        consumer.subscribe(["orders"])
        read = 0
        while read < 60:
            message = consumer.poll(_PATIENCE_S)
            assert message is not None
            assert message.error() is None, message.error()
            read += 1
        places = [ck.TopicPartition("orders", index, 20) for index in range(2)]
        consumer.commit(offsets=places, asynchronous=False)
        yield broker, pages_of(broker)
        consumer.close()
        assert "Traceback" not in broker.log(), broker.log()


def test_messages_bytes_and_requests_are_counted_exactly(used):
    found = scrape(used[1])
    assert found.of("kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 60
    bytes_in = found.of("kafka_server_brokertopicmetrics_bytesin_total", topic="orders")
    sizes = found.all_of("kafka_log_log_size")
    assert bytes_in > 6000
    assert bytes_in == sum(size for of, size in sizes.items() if ("topic", "orders") in of)
    # The consumer may have asked for the same again after a rebalance, never for less.
    assert found.of("kafka_server_brokertopicmetrics_bytesout_total", topic="orders") >= bytes_in
    total = found.of("kafka_server_brokertopicmetrics_messagesin_total", topic="")
    topics = found.all_of("kafka_server_brokertopicmetrics_messagesin_total")
    assert total * 2 == sum(topics.values()), "the row without a topic is the sum of the others"
    assert found.of("kafka_log_log_logendoffset", topic="orders", partition="0") == 30
    assert found.of("kafka_server_brokertopicmetrics_messagesin_total", topic="idle") == 0
    requests = found.all_of("kafka_network_requestmetrics_requests_total")
    produced = found.of("kafka_network_requestmetrics_requests_total", request="Produce")
    assert produced == found["kafka_server_brokertopicmetrics_totalproducerequests_total"] > 0
    assert found.of("kafka_network_requestmetrics_requests_total", request="CreateTopics") == 1
    fetches = found.of("kafka_network_requestmetrics_requests_total", request="Fetch")
    assert fetches == found.of(
        "kafka_network_requestmetrics_requests_total", request="FetchConsumer"
    )
    assert frozenset({("request", "FetchFollower")}) not in requests
    assert found["kafka_server_replicamanager_partitioncount"] == 4
    assert found["kafka_server_replicamanager_leadercount"] == 4
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == 0
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert found["kafka_controller_kafkacontroller_globaltopiccount"] == 3


def test_the_time_of_requests_is_split_by_phase(used):

    def has_waited(found: Scraped) -> bool:
        name = "kafka_network_requestmetrics_remotetimems_sum"
        return found.of(name, request="FetchConsumer") > 0  # a fetch found nothing, and waited

    found = until(lambda: scrape(used[1]), has_waited)
    for phase in ("requestqueue", "local", "remote", "responsequeue", "responsesend", "total"):
        name = f"kafka_network_requestmetrics_{phase}timems"
        counted = found.of("kafka_network_requestmetrics_requests_total", request="Produce")
        assert found.of(f"{name}_count", request="Produce") == counted
        assert found.of(name, request="Produce", quantile="0.99") >= 0
    parts = ("requestqueue", "local", "remote", "responsequeue", "responsesend")
    total = found.of("kafka_network_requestmetrics_totaltimems_sum", request="Produce")
    name = "kafka_network_requestmetrics_{}timems_sum"
    assert total == pytest.approx(
        sum(found.of(name.format(each), request="Produce") for each in parts), rel=0.001
    )


def test_lag_of_groups_in_messages_and_seconds(used):
    def lagging(found: Scraped) -> bool:
        return bool(found.all_of("kafka_consumergroup_lag"))

    found = until(lambda: scrape(used[1]), lagging)
    place = {"consumergroup": "readers", "topic": "orders", "partition": "1"}
    assert found.of("kafka_consumergroup_lag", **place) == 10
    assert found.of("kafka_consumergroup_current_offset", **place) == 20
    waited = found.of("kafka_consumergroup_lag_seconds", **place)
    assert 0 < waited < 3600
    later = until(
        lambda: scrape(used[1]),
        lambda found: found.of("kafka_consumergroup_lag_seconds", **place) > waited,
    )
    assert later.of("kafka_consumergroup_lag", **place) == 10
    assert found.of("kafka_consumergroup_members", consumergroup="readers") == 1
    assert found["tidelog_group_rebalances_total"] >= 1
    assert found["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 2


def test_clients_send_their_own_metrics(used):
    """librdkafka pushes by KIP-714 when it is asked to."""

    def pushed(found: Scraped) -> bool:
        return found["tidelog_client_telemetry_pushes_total"] > 0 and bool(
            found.all_of("tidelog_client_telemetry")
        )

    found = until(lambda: scrape(used[1]), pushed)
    assert found["tidelog_client_telemetry_bytes_total"] > 0
    values = found.all_of("tidelog_client_telemetry")
    names = {dict(labels)["metric"] for labels in values}
    assert any(name.startswith("org.apache.kafka.") for name in names), names
    assert all("rdkafka" in dict(labels)["software"] for labels in values)


def promtool() -> str:
    found = shutil.which("promtool") or str(ROOT / ".peers" / "promtool")
    if not Path(found).exists():
        pytest.skip("promtool is not there; scripts/prometheus.sh fetches it")
    return found


def test_promtool_finds_nothing_wrong(used):
    checked = subprocess.run(
        [promtool(), "check", "metrics"],
        input=scrape(used[1]).text,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_family_has_a_help_text(used):
    found = scrape(used[1])
    assert all(len(text) > 5 for text in found.helps.values()), found.helps


def test_the_dashboard_names_only_metrics_that_exist(used):
    """Some families have rows only when something is wrong; their heads are there all the same."""
    board = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    queries = [
        target["expr"] for panel in board["panels"] for target in panel.get("targets", ())
    ] + [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    named = {
        name for each in queries for name in re.findall(r"\b(?:kafka|tidelog|process)_\w+", each)
    }
    assert len(named) > 40

    def unknown() -> set[str]:
        found = scrape(used[1])
        return named - set(re.findall(r"^# TYPE (\S+)", found.text, re.MULTILINE)) - found.names

    until(
        unknown, lambda left: not left
    )  # the cleaner's come when it has started, after the broker


def test_health_and_readiness(used):
    assert page(used[1], "/healthz") == (200, "ok\n")
    assert page(used[1], "/readyz") == (200, "ready\n")
    assert page(used[1], "/console")[0] == 404


def test_levels_of_loggers_are_changed_while_it_runs(used):
    command = [sys.executable, "-m", "tidelog", "config"]
    where = ["--loggers", "0", "-b", used[0].bootstrap]
    set_it = [*command, "set", *where, "tidelog.broker.telemetry=debug"]
    subprocess.run(set_it, check=True, timeout=120)
    get_it = [*command, "get", *where, "tidelog.broker.telemetry"]
    told = subprocess.run(get_it, check=True, timeout=120, capture_output=True, text=True)
    assert told.stdout.strip() == "DEBUG"
    assert "tidelog.broker.telemetry is at DEBUG" in used[0].log()
    wrong = [*command, "set", *where, "tidelog.broker=loud"]
    refused = subprocess.run(wrong, timeout=120, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "loud is not a level" in refused.stderr
