"""The REST API over a real broker and a real registry."""

import json
import time
from collections.abc import Callable

import pytest
from consoles import Console, segment

from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.testing.local_broker import LocalBroker

MakeTopic = Callable[..., str]


def values(page: dict) -> list[str]:
    return [each["value"]["text"] for each in page["messages"]]


@pytest.fixture
def write(broker: LocalBroker) -> Callable[..., None]:
    """Writes values, with their numbers as times and keys."""

    def write(topic: str, *texts: str | bytes, partition: int | None = None) -> None:
        with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            for number, text in enumerate(texts):
                data = text if isinstance(text, bytes) else text.encode()
                key = f"k{number}".encode()
                time = 1_700_000_000_000 + number * 1000
                producer.send(topic, data, key, timestamp=time, partition=partition)

    return write


# ---------------------------------------------------------------------- topics


def test_a_topic_is_created_seen_changed_and_deleted(console: Console):
    made = console.ask(
        "POST", "/topics", {"name": "life", "partitions": 3, "settings": {"retention.ms": "5000"}}
    )
    assert made.status == 201
    row = next(each for each in console.get("/topics") if each["name"] == "life")
    assert (row["partitions"], row["messages"], row["under_replicated"]) == (3, 0, 0)
    found = console.get("/topics/life")
    assert [each["leader"] for each in found["partitions"]] == [0, 0, 0]
    assert [each["isr"] for each in found["partitions"]] == [[0], [0], [0]]
    assert [(each["name"], each["value"]) for each in found["settings"]] == [
        ("retention.ms", "5000")
    ]
    change = {"changes": {"retention.ms": "6000"}}
    assert console.ask("PATCH", "/topics/life/settings", change | {"dry_run": True}).status == 200
    assert setting(console, "/topics/life", "retention.ms") == "5000"
    assert console.ask("PATCH", "/topics/life/settings", change).status == 200
    assert setting(console, "/topics/life", "retention.ms") == "6000"
    console.post("/topics/life/partitions", {"total": 5})
    assert len(console.get("/topics/life")["partitions"]) == 5
    assert console.ask("DELETE", "/topics/life", confirmed="live").code == "bad_request"
    assert console.ask("DELETE", "/topics/life", confirmed="life").status == 200
    assert console.ask("GET", "/topics/life").status == 404


def setting(console: Console, where: str, name: str) -> str | None:
    entries = console.get(f"{where}/settings")
    return next(each["value"] for each in entries if each["name"] == name)


def test_topics_by_a_part_of_their_names(console: Console, topic: MakeTopic):
    name = topic()
    assert [each["name"] for each in console.get("/topics", q=name)] == [name]
    internal = [each["name"] for each in console.get("/topics", internal="true")]
    assert internal == sorted(internal)


# ---------------------------------------------------------------------- messages


def test_the_last_messages(console: Console, topic: MakeTopic, write):
    name = topic(3)
    write(name, *(f"v{each}" for each in range(30)))
    page = console.get(f"/topics/{name}/messages", from_="-10")
    assert values(page) == [f"v{each}" for each in range(20, 30)]
    assert page["complete"] is True
    older = console.get(f"/topics/{name}/messages", from_="-10", before=page["previous"])
    assert values(older) == [f"v{each}" for each in range(10, 20)]
    oldest = console.get(f"/topics/{name}/messages", from_="-50", before=older["previous"])
    assert values(oldest) == [f"v{each}" for each in range(10)]
    assert console.get(f"/topics/{name}/messages", from_=page["next"])["messages"] == []


def test_from_the_start_page_by_page(console: Console, topic: MakeTopic, write):
    name = topic()
    write(name, *(f"v{each}" for each in range(7)))
    first = console.get(f"/topics/{name}/messages", from_="start", limit=4)
    assert values(first) == ["v0", "v1", "v2", "v3"]
    second = console.get(f"/topics/{name}/messages", from_=first["next"], limit=4)
    assert values(second) == ["v4", "v5", "v6"]
    assert second["next"] == "0:7"


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("2", ["v2", "v3"]),
        ("end", []),
        ("99", []),
        ("@1700000001500", ["v2", "v3"]),
        ("2023-11-14T22:13:23Z", ["v3"]),
        ("1m", []),
        ("0:3", ["v3"]),
    ],
)
def test_from_an_offset_or_a_time(console, topic, write, where, found):
    name = topic()
    write(name, "v0", "v1", "v2", "v3")
    assert values(console.get(f"/topics/{name}/messages", from_=where)) == found


def test_search(console: Console, topic: MakeTopic, write):
    name = topic(2)
    texts = [
        json.dumps({"n": each, "who": "Ada" if each % 10 == 0 else "Bob"}) for each in range(40)
    ]
    write(name, *texts)
    page = console.get(f"/topics/{name}/messages", q="ada")
    assert [json.loads(each)["n"] for each in values(page)] == [0, 10, 20, 30]
    page = console.get(f"/topics/{name}/messages", from_="-2", q="ada")
    assert [json.loads(each)["n"] for each in values(page)] == [20, 30]
    page = console.get(f"/topics/{name}/messages", from_="start", where="value.n=17")
    assert [json.loads(each)["n"] for each in values(page)] == [17]
    page = console.get(f"/topics/{name}/messages", where=["value.n>=30", "value.who=Ada"])
    assert [json.loads(each)["n"] for each in values(page)] == [30]


def test_a_search_goes_back_in_ever_larger_parts(console: Console, topic: MakeTopic, write):
    name = topic()
    write(name, "needle", *("hay" for _ in range(6000)))
    page = console.get(f"/topics/{name}/messages", q="needle")
    assert values(page) == ["needle"]
    assert page["scanned"] == 6001


def test_one_partition(console: Console, topic: MakeTopic, write):
    name = topic(2)
    write(name, "a", partition=0)
    write(name, "b", partition=1)
    assert values(console.get(f"/topics/{name}/messages", partition=1)) == ["b"]
    assert console.ask("GET", f"/topics/{name}/messages", partition=7).status == 404


def test_what_messages_look_like(console: Console, topic: MakeTopic):
    name = topic()
    cases = [
        ("json", '{"a": [1]}', "json", '{"a": [1]}'),
        ("text", "plain", "text", "plain"),
        ("hex", "00 ff 10", "hex", "00 ff 10"),
        ("base64", "/////w==", "hex", "ff ff ff ff"),
        ("null", "ignored", "null", ""),
        ("text", "{broken", "text", "{broken"),
        ("text", "", "text", ""),
    ]
    for format, text, _, _ in cases:
        body = {"value": text, "value_format": format, "headers": [{"name": "h", "value": "x"}]}
        console.post(f"/topics/{name}/messages", body)
    found = console.get(f"/topics/{name}/messages")["messages"]
    shown = [(each["value"]["format"], each["value"]["text"]) for each in found]
    assert shown == [(each[2], each[3]) for each in cases]
    assert found[0]["headers"] == [
        {"name": "h", "value": {**found[0]["headers"][0]["value"], "format": "text", "text": "x"}}
    ]


def test_a_large_value_is_cut(console: Console, topic: MakeTopic):
    name = topic()
    console.post(f"/topics/{name}/messages", {"value": "x" * 100_000})
    value = console.get(f"/topics/{name}/messages", shown_bytes=100)["messages"][0]["value"]
    assert value["text"] == "x" * 100
    assert (value["truncated"], value["size"]) == (True, 100_000)


def test_aborted_transactions_are_left_out(console, topic, broker):
    name = topic()
    with Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name}) as producer:
        producer.begin_transaction()
        producer.send(name, b"aborted").result()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(name, b"kept")
    assert values(console.get(f"/topics/{name}/messages", committed="true")) == ["kept"]
    assert values(console.get(f"/topics/{name}/messages")) == ["aborted", "kept"]


def test_export(console: Console, topic: MakeTopic, write):
    name = topic()
    write(name, "=1+1", "b,c")
    answer = console.ask("GET", f"/topics/{name}/export", format="csv", from_="start")
    lines = answer.body.decode().splitlines()
    assert lines[0] == "partition,offset,timestamp,key,value,headers"
    assert lines[1] == "0,0,1700000000000,k0,'=1+1,"  # no formula for a spreadsheet
    assert lines[2] == '0,1,1700000001000,k1,"b,c",'
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.csv"'
    answer = console.ask("GET", f"/topics/{name}/export", from_="start")
    assert [json.loads(each)["value"] for each in answer.body.splitlines()] == ["=1+1", "b,c"]


# ---------------------------------------------------------------------- groups


def test_a_group_is_seen_moved_and_deleted(console, topic, write, admin: Admin):
    name = topic(2)
    write(name, *("x" for _ in range(10)), partition=0)
    group = f"billing/{name}"  # a slash is legal
    admin.alter_group_offsets(group, {TopicPartition(name, 0): 4, TopicPartition(name, 1): 0})
    where = f"/groups/{segment(group)}"
    found = console.get(where)
    assert (found["lag"], found["state"], found["members"]) == (6, "Empty", [])
    first = found["partitions"][0]
    assert (first["offset"], first["end"], first["lag"]) == (4, 10, 6)
    assert first["lag_seconds"] > 1e6  # the times of the messages are of 2023
    assert any(each["group"] == group for each in console.get("/groups"))

    moved = console.post(f"{where}/reset", {"to": "start", "topic": name})
    assert moved["dry_run"] is True
    assert [(each["before"], each["after"]) for each in moved["partitions"]] == [(4, 0), (0, 0)]
    assert console.get(where)["partitions"][0]["offset"] == 4  # nothing was done

    cases = [
        ({"to": "offset", "offset": 7}, 7),
        ({"to": "offset", "offset": 99}, 10),
        ({"to": "shift", "shift": -3}, 7),
        ({"to": "time", "time": "@1700000002500"}, 3),
        ({"to": "end"}, 10),
        ({"to": "start"}, 0),
    ]
    for body, after in cases:
        console.post(f"{where}/reset", body | {"topic": name, "partitions": [0], "dry_run": False})
        assert console.get(where)["partitions"][0]["offset"] == after, body
    assert console.ask("DELETE", where, confirmed=group).status == 200
    assert console.ask("GET", where).status == 404


def test_a_group_with_members_is_not_moved(console, topic, write, broker):
    name = topic()
    write(name, "a", "b")
    config = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    group = f"live-{name}"
    with Consumer({**config, "group.id": group}, topics=[name]) as consumer:
        while not consumer.poll(timeout=1.0):
            pass
        consumer.commit()
        found = console.get(f"/groups/{group}")
        assert found["state"] == "Stable"
        assert found["members"][0]["partitions"] == [f"{name}-0"]
        assert found["partitions"][0]["member_id"] == found["members"][0]["member_id"]
        refused = console.ask("POST", f"/groups/{group}/reset", {"to": "start", "dry_run": False})
        assert (refused.status, refused.code) == (409, "non_empty_group")
        assert console.get(f"/groups/{group}")["partitions"][0]["offset"] == 2
        assert (
            console.post(f"/groups/{group}/reset", {"to": "start"})["partitions"][0]["after"] == 0
        )


# ---------------------------------------------------------------------- schemas

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
WORSE = AVRO.replace('"long"', '"string"')


def test_schemas_and_avro_messages(console: Console, topic: MakeTopic):
    name = topic()
    subject = f"{name}-value"
    checked = console.post(f"/schemas/{subject}", {"text": AVRO, "dry_run": True})
    assert (checked["id"], checked["incompatibilities"]) == (None, [])
    assert subject not in console.get("/schemas")
    id = console.post(f"/schemas/{subject}", {"text": AVRO})["id"]
    assert subject in console.get("/schemas")
    assert console.get(f"/schemas/{subject}")["versions"] == [1]
    version = console.get(f"/schemas/{subject}/versions/1")
    assert (version["id"], version["type"]) == (id, "AVRO")
    worse = console.post(f"/schemas/{subject}", {"text": WORSE, "dry_run": True})
    assert worse["incompatibilities"]
    assert console.ask("POST", f"/schemas/{subject}", {"text": WORSE}).status == 409
    console.ask("PUT", f"/schemas/{subject}/compatibility", {"level": "NONE"})
    assert console.get(f"/schemas/{subject}")["compatibility"] == "NONE"

    body = {"value": '{"id": 7}', "value_format": "avro"}
    console.post(f"/topics/{name}/messages", body)
    wrong = console.ask("POST", f"/topics/{name}/messages", body | {"value": '{"id": "x"}'})
    assert wrong.status == 422
    shown = console.get(f"/topics/{name}/messages")["messages"][0]["value"]
    assert (shown["format"], shown["text"], shown["schema_id"]) == ("avro", '{"id": 7}', id)
    assert len(console.get(f"/topics/{name}/messages", where="value.id=7")["messages"]) == 1
    assert len(console.get(f"/topics/{name}/messages", q='"id": 7')["messages"]) == 1

    assert console.ask("DELETE", f"/schemas/{subject}", confirmed=subject).body["versions"] == [1]
    assert subject not in console.get("/schemas")


def test_without_a_registry(read_only: Console):
    answer = read_only.ask("GET", "/schemas")
    assert (answer.status, answer.code) == (409, "no_registry")
    assert "--registry" in answer.message


# ---------------------------------------------------------------------- the cluster


def test_overview(console: Console, topic: MakeTopic):
    topic(2)
    found = console.get("/overview")
    assert [each["id"] for each in found["brokers"]] == [0]
    assert found["brokers"][0]["is_controller"] is True
    assert found["brokers"][0]["size"] >= 0
    assert found["topics"] >= 1
    assert found["under_replicated"] == found["leaderless"] == []


def test_rates_come(console: Console, topic: MakeTopic, write):
    name = topic()
    deadline = time.monotonic() + 120
    while not any(console.get("/rates", topic=name)["messages_per_second"]):
        assert time.monotonic() < deadline
        write(name, "x")
        time.sleep(0.2)
    series = console.get("/rates")
    assert len(series["times"]) == len(series["messages_per_second"]) > 0


def test_settings_of_a_broker(console: Console):
    entries = {each["name"]: each for each in console.get("/brokers/0/settings")}
    assert entries["broker.id"]["is_read_only"] is True
    assert entries["ssl.key.password"] == {
        "name": "ssl.key.password",
        "value": None,
        "is_default": True,
        "is_own": False,
        "is_read_only": True,
        "is_secret": True,
    }
    name = next(
        each["name"]
        for each in entries.values()
        if not each["is_read_only"] and each["value"] == "true"
    )
    change = {"changes": {name: "false"}, "dry_run": True}
    assert console.ask("PATCH", "/brokers/0/settings", change).status == 200
    assert console.ask("PATCH", "/brokers/settings", change).status == 200
    assert setting(console, "/brokers/0", name) == "true"
    assert console.ask("GET", "/brokers/7/settings").status == 404


def test_quotas(console: Console):
    entity = {"client-id": "greedy"}
    console.post("/quotas", {"entity": entity, "limits": {"producer_byte_rate": 1024}})
    assert {"entity": entity, "limits": {"producer_byte_rate": 1024.0}} in console.get("/quotas")
    console.post("/quotas", {"entity": entity, "limits": {"producer_byte_rate": None}})
    assert all(each["entity"] != entity for each in console.get("/quotas"))


def test_users(console: Console):
    answer = console.ask("PUT", "/users/bob", {"password": "hush-hush", "iterations": 4096})
    assert answer.status == 200
    assert "hush-hush" not in json.dumps(answer.body)
    assert {
        "user": "bob",
        "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}],
    } in console.get("/users")
    assert console.ask("DELETE", "/users/bob", confirmed="bob").status == 200
    assert "bob" not in [each["user"] for each in console.get("/users")]


def test_audit(console: Console, topic: MakeTopic, broker: LocalBroker):
    name = topic()
    with Producer({"bootstrap.servers": broker.bootstrap}, audit=True) as producer:
        for _ in range(5):
            producer.send(name, b"counted")
    found = console.get("/audit", topic=name)
    assert found["tiers"][0] == "producer"
    assert found["topics"] == [name]
    assert sum(each["counts"]["producer"] for each in found["windows"]) == 5
    assert console.get("/audit", topic="nobody-counts-it")["windows"] == []
