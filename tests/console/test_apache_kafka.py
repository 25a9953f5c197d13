"""The console over Apache Kafka: it is a client as any other."""

import sys
from pathlib import Path

import pytest
from consoles import Console

sys.path.append(str(Path(__file__).parents[1] / "compat"))  # for `apache_kafka`

from apache_kafka import ApacheKafka

PATHS = [
    "/overview",
    "/topics",
    "/topics/orders",
    "/topics/orders/settings",
    "/groups",
    "/brokers/1/settings",
    "/quotas",
    "/acls",
    "/users",
    "/audit",
]


@pytest.mark.compat
def test_a_topic_is_made_written_and_read(tmp_path: Path):
    kafka = ApacheKafka(tmp_path)
    with kafka.running(), Console({"bootstrap.servers": kafka.bootstrap}) as console:
        console.post("/topics", {"name": "orders", "partitions": 3})
        for number in range(3):
            console.post("/topics/orders/messages", {"value": f"v{number}"})
        page = console.get("/topics/orders/messages", from_="-10")
        assert {each["value"]["text"] for each in page["messages"]} == {"v0", "v1", "v2"}
        for path in PATHS:
            assert console.ask("GET", path).status == 200, path
        assert console.get("/acls")["enabled"] is False
