"""Confluent's registry client and serializers, and another client, unmodified against our registry."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from schema_registry.client import SchemaRegistryClient as OtherClient
from schema_registry.client.schema import AvroSchema as OtherAvroSchema

import tidelog
from tidelog.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    Reference,
    RegistryClient,
    Schema,
)
from tidelog.schemas.local_registry import LocalRegistry

pytestmark = pytest.mark.compat

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
WITH_COUNTRY = {**ORDER, "fields": [*ORDER["fields"], {"name": "country", "type": "string"}]}  # type: ignore[misc]
WITH_DEFAULT = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "country", "type": "string", "default": "NL"}],  # type: ignore[misc]
}
MESSAGE = {"id": 7, "customer": "ada", "lines": ["tea", "☕"], "note": None}
PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[LocalRegistry]:
    with LocalRegistry(bootstrap) as running:
        yield running
        assert "Traceback" not in running.log(), running.log()


@pytest.fixture
def theirs(registry: LocalRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def ours(registry: LocalRegistry) -> Iterator[RegistryClient]:
    with RegistryClient(registry.url) as client:
        yield client


def avro(schema: dict[str, Any], references: list[SchemaReference] | None = None) -> TheirSchema:
    return TheirSchema(json.dumps(schema), "AVRO", references or [])


def test_register_and_look_up(theirs: SchemaRegistryClient, unique: Callable[[str], str]) -> None:
    subject = unique("orders")
    id = theirs.register_schema(subject, avro(ORDER))
    assert theirs.register_schema(subject, avro(ORDER)) == id
    assert json.loads(theirs.get_schema(id).schema_str) == ORDER
    found = theirs.lookup_schema(subject, avro(ORDER))
    assert (found.schema_id, found.version, found.subject) == (id, 1, subject)
    latest = theirs.get_latest_version(subject)
    assert (latest.schema_id, latest.version) == (id, 1)
    assert theirs.get_version(subject, 1).schema_id == id
    assert subject in theirs.get_subjects()
    assert theirs.get_versions(subject) == [1]
    other = unique("again")
    assert theirs.register_schema(other, avro(ORDER)) == id, "one schema has one id"


def test_evolve_and_refuse(theirs: SchemaRegistryClient, unique: Callable[[str], str]) -> None:
    subject = unique("evolving")
    theirs.register_schema(subject, avro(ORDER))
    assert not theirs.test_compatibility(subject, avro(WITH_COUNTRY))
    with pytest.raises(SchemaRegistryError) as refused:
        theirs.register_schema(subject, avro(WITH_COUNTRY))
    assert refused.value.http_status_code == 409
    assert refused.value.error_code == 409
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in str(refused.value)
    assert theirs.test_compatibility(subject, avro(WITH_DEFAULT))
    theirs.register_schema(subject, avro(WITH_DEFAULT))
    assert theirs.get_versions(subject) == [1, 2]
    theirs.set_compatibility(subject, "NONE")
    assert theirs.get_compatibility(subject) == "NONE"
    theirs.register_schema(subject, avro(WITH_COUNTRY))
    assert theirs.get_versions(subject) == [1, 2, 3]


def test_references_and_deletes(
    theirs: SchemaRegistryClient, ours: RegistryClient, unique: Callable[[str], str]
) -> None:
    address = {
        "type": "record",
        "name": "Address",
        "namespace": "shop",
        "fields": [{"name": "street", "type": "string"}],
    }
    customer = {
        "type": "record",
        "name": "Customer",
        "namespace": "shop",
        "fields": [{"name": "home", "type": "shop.Address"}],
    }
    inner, topic = unique("address"), unique("customer")
    outer = f"{topic}-value"
    theirs.register_schema(inner, avro(address))
    reference = SchemaReference("shop.Address", inner, 1)
    id = theirs.register_schema(outer, avro(customer, [reference]))
    assert theirs.get_schema(id).references == [reference]
    serialize = TheirAvroSerializer(theirs, avro(customer, [reference]))
    written = serialize(
        {"home": {"street": "Damrak"}}, SerializationContext(topic, MessageField.VALUE)
    )
    assert AvroDeserializer(ours)(written) == {"home": {"street": "Damrak"}}
    mine = AvroSerializer(
        ours,
        Schema(json.dumps(customer), references=(Reference("shop.Address", inner, 1),)),
        subject=outer,
    )({"home": {"street": "Spui"}})
    read = TheirAvroDeserializer(theirs)
    assert read(mine, SerializationContext(topic, MessageField.VALUE)) == {
        "home": {"street": "Spui"}
    }
    with pytest.raises(SchemaRegistryError) as refused:
        theirs.delete_version(inner, 1)
    assert refused.value.error_code == 42206
    assert theirs.delete_subject(outer) == [1]
    assert outer not in theirs.get_subjects()
    with pytest.raises(SchemaRegistryError) as gone:
        theirs.get_latest_version(outer)
    assert gone.value.error_code == 40401
    assert theirs.delete_subject(outer, permanent=True) == [1]
    theirs.clear_caches()
    assert theirs.delete_version(inner, 1) == 1


def test_the_same_data_is_read_by_both(
    bootstrap: str,
    theirs: SchemaRegistryClient,
    ours: RegistryClient,
    unique: Callable[[str], str],
) -> None:
    topic = unique("events")
    context = SerializationContext(topic, MessageField.VALUE)
    by_them = TheirAvroSerializer(theirs, json.dumps(ORDER))(MESSAGE, context)
    by_us = AvroSerializer(ours, ORDER, topic=topic)(MESSAGE)
    assert by_them == by_us
    with tidelog.Producer(
        bootstrap_servers=bootstrap, value_serializer=AvroSerializer(ours, ORDER, topic=topic)
    ) as producer:
        producer.send(topic, MESSAGE).result(30)
        producer.send(topic, {**MESSAGE, "id": 8}).result(30)
    with tidelog.SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        raw = [each.value for each in consumer.fetch(topic, 0, 0)]
    read = TheirAvroDeserializer(theirs)
    assert [read(each, context)["id"] for each in raw] == [7, 8]
    mine = AvroDeserializer(ours)
    assert [mine(each) for each in raw] == [MESSAGE, {**MESSAGE, "id": 8}]
    # Read with a later schema, by both.
    theirs.register_schema(f"{topic}-value", avro(WITH_DEFAULT))
    newer = TheirAvroDeserializer(theirs, json.dumps(WITH_DEFAULT))
    wanted = {**MESSAGE, "country": "NL"}
    assert newer(raw[0], context) == wanted
    assert AvroDeserializer(ours, reader=WITH_DEFAULT)(raw[0]) == wanted


def test_json(
    theirs: SchemaRegistryClient, ours: RegistryClient, unique: Callable[[str], str]
) -> None:
    topic = unique("people")
    context = SerializationContext(topic, MessageField.VALUE)
    value = {"name": "ada", "age": 36}
    written = JSONSerializer(json.dumps(PERSON), theirs)(value, context)
    assert JsonDeserializer(ours)(written) == value
    mine = JsonSerializer(ours, PERSON, topic=topic)(value)
    assert (
        JSONDeserializer(json.dumps(PERSON), schema_registry_client=theirs)(mine, context) == value
    )
    assert theirs.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"
    narrower = {**PERSON, "required": ["name", "age"]}
    with pytest.raises(SchemaRegistryError) as refused:
        theirs.register_schema(f"{topic}-value", TheirSchema(json.dumps(narrower), "JSON"))
    assert refused.value.http_status_code == 409


def test_protobuf(theirs: SchemaRegistryClient, unique: Callable[[str], str]) -> None:
    topic = unique("protos")
    context = SerializationContext(topic, MessageField.VALUE)
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{topic}.proto", package="shop", syntax="proto3"
    )
    fields = file.message_type.add(name="Order").field
    fields.add(name="id", number=1, type=3, label=1)
    fields.add(name="who", number=2, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    options = {"use.deprecated.format": False}
    data = ProtobufSerializer(kind, theirs, options)(kind(id=7, who="ada"), context)
    assert ProtobufDeserializer(kind, options, theirs)(data, context) == kind(id=7, who="ada")
    kept = theirs.get_latest_version(f"{topic}-value").schema
    assert kept.schema_type == "PROTOBUF"
    narrower = kept.schema_str.replace("int64 id = 1", "string id = 1")
    with pytest.raises(SchemaRegistryError) as refused:
        theirs.register_schema(f"{topic}-value", TheirSchema(narrower, "PROTOBUF"))
    assert refused.value.http_status_code == 409


def test_what_the_guide_shows(
    bootstrap: str, registry: LocalRegistry, unique: Callable[[str], str]
) -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/schemas.md").read_text()
    shown = guide.partition("```python\n")[2].partition("```")[0]
    topic = unique("guide")
    for written, meant in {
        "http://localhost:8081": registry.url,
        "localhost:9092": bootstrap,
        '"orders"': f'"{topic}"',
        '"billing"': f'"{topic}"',
        'print(message.value["customer"])': "seen.append(message.value); break",
    }.items():
        assert written in shown
        shown = shown.replace(written, meant)
    seen: list[Any] = []
    exec(shown, {"seen": seen})
    assert seen == [{"id": 1, "customer": "ada"}]


def test_modes_and_levels(theirs: SchemaRegistryClient, unique: Callable[[str], str]) -> None:
    subject = unique("frozen")
    theirs.register_schema(subject, avro(ORDER))
    assert theirs.get_compatibility() == "BACKWARD"
    with pytest.raises(SchemaRegistryError) as missing:
        theirs.get_compatibility(subject)
    assert missing.value.error_code == 40408


def test_another_client(registry: LocalRegistry, unique: Callable[[str], str]) -> None:
    client = OtherClient(url=registry.url)
    subject = unique("other")
    schema = OtherAvroSchema(ORDER)
    id = client.register(subject, schema)
    assert client.get_by_id(id).raw_schema == ORDER  # type: ignore[union-attr]
    assert client.check_version(subject, schema).version == 1  # type: ignore[union-attr]
    assert client.test_compatibility(subject, OtherAvroSchema(WITH_DEFAULT))
    assert not client.test_compatibility(subject, OtherAvroSchema(WITH_COUNTRY))
    assert client.get_versions(subject) == [1]
    assert client.update_compatibility("FULL", subject)
    assert client.get_compatibility(subject) == "FULL"
    assert subject in client.get_subjects()
    assert client.delete_version(subject, 1) == 1
    assert subject not in client.get_subjects()
