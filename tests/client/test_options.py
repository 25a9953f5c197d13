"""Every setting is a keyword that help(), completion and type checkers know; other clients' words are understood or answered."""

import inspect
import pydoc
from typing import Any, get_type_hints

import pytest

from tidelog import Admin, Consumer, Producer, SimpleConsumer, aio
from tidelog.client import options
from tidelog.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    load,
)
from tidelog.errors import SettingsError
from tidelog.settings import Section, declared

CLIENTS: list[tuple[type[Any], type[Section], type[Any]]] = [
    (Producer, ProducerSettings, options.ProducerOptions),
    (aio.Producer, ProducerSettings, options.ProducerOptions),
    (Consumer, ConsumerSettings, options.ConsumerOptions),
    (aio.Consumer, ConsumerSettings, options.ConsumerOptions),
    (SimpleConsumer, ConsumerSettings, options.ConsumerOptions),
    (aio.SimpleConsumer, ConsumerSettings, options.ConsumerOptions),
    (Admin, ClientSettings, options.ClientOptions),
    (aio.Admin, ClientSettings, options.ClientOptions),
]


def keywords(section: type[Section]) -> set[str]:
    return {each.spec.name.replace(".", "_") for each in declared(section)}


@pytest.mark.parametrize(("client", "section", "typed"), CLIENTS)
def test_every_setting_is_a_keyword(
    client: type[Any], section: type[Section], typed: type[Any]
) -> None:
    assert set(get_type_hints(typed)) == keywords(section)
    parameters = inspect.signature(client).parameters
    assert keywords(section) <= set(parameters)
    for each in declared(section):
        shown = parameters[each.spec.name.replace(".", "_")]
        assert shown.kind is inspect.Parameter.KEYWORD_ONLY
    assert "bootstrap_servers" in pydoc.render_doc(client)


@pytest.mark.parametrize(("_", "section", "typed"), CLIENTS[::2])
def test_every_setting_is_documented(_: object, section: type[Section], typed: type[Any]) -> None:
    text = "".join(base.__doc__ or "" for base in (typed, options.ClientOptions))
    for keyword in keywords(section):
        assert f"\n    {keyword}: " in text


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_a_docstring_shows_one_use_and_names_options(client: type[Any]) -> None:
    text = client.__doc__ or ""
    assert "with " in text
    assert "options" in text.lower()
    for word in text.split():
        if word.endswith(("_ms", "_id")):
            assert word in inspect.signature(client).parameters


def test_a_type_checker_knows_them() -> None:
    """mypy refuses a comment that ignores nothing, so each of these is an error to it."""
    with pytest.raises(SettingsError):
        Producer(bootstrap_servers="x:1", linger_ms="soon")  # type: ignore[arg-type]
    with pytest.raises(SettingsError):
        Producer(bootstrap_servers="x:1", compression_type="zip")  # type: ignore[arg-type]
    with pytest.raises(SettingsError):
        Consumer(bootstrap_servers="x:1", lingerms=3)  # type: ignore[call-arg]
    with pytest.raises(SettingsError):
        Admin(bootstrap_servers="x:1", linger_ms=3)  # type: ignore[call-arg]


# ------------------------------------------------------------------ other clients' words


@pytest.mark.parametrize(
    ("section", "given", "attribute", "value"),
    [
        (ProducerSettings, {"ssl_cafile": "ca.pem"}, "ssl_ca_location", "ca.pem"),
        (ProducerSettings, {"sasl_plain_username": "alice"}, "sasl_username", "alice"),
        (ProducerSettings, {"max_batch_size": 1000}, "batch_size", 1000),
        (ProducerSettings, {"compression.codec": "zstd"}, "compression_type", "zstd"),
        (ProducerSettings, {"message.timeout.ms": 5}, "delivery_timeout_ms", 5),
        (ProducerSettings, {"queue.buffering.max.kbytes": 64}, "buffer_memory", 65536),
        (ConsumerSettings, {"auto.offset.reset": "beginning"}, "reset", "earliest"),
        (ConsumerSettings, {"auto.offset.reset": "end"}, "reset", "latest"),
        (ConsumerSettings, {"auto.offset.reset": "error"}, "reset", "none"),
        (ConsumerSettings, {"group_id": None}, "group_id", ""),
        (ConsumerSettings, {"sasl.mechanisms": "PLAIN"}, "sasl_mechanism", "PLAIN"),
        (ConsumerSettings, {"fetch.wait.max.ms": 9}, "fetch_max_wait_ms", 9),
    ],
)
def test_other_names_of_a_setting_are_understood(
    section: type[Section], given: dict[str, Any], attribute: str, value: object
) -> None:
    settings = load(section, {"bootstrap.servers": ["x:1", "y:2"]}, given)
    assert getattr(settings, attribute) == value


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("api_version", "leave it out"),
        ("consumer_timeout_ms", r"poll\(timeout="),
        ("queue_buffering_max_messages", "buffer_memory"),
        ("oauth_cb", "sasl_oauth_token_provider"),
        ("ssl_check_hostname", "ssl_endpoint_identification_algorithm"),
        ("statistics_interval_ms", r"metrics\(\)"),
    ],
)
def test_a_setting_that_we_have_not_is_answered_with_ours(name: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(ConsumerSettings, None, {"bootstrap_servers": "x:1", name: 1})


def test_topics_may_come_first() -> None:
    config = {"bootstrap.servers": "127.0.0.1:1"}
    with Consumer("a", "b", bootstrap_servers="127.0.0.1:1") as consumer:
        assert consumer.core.wish is not None
        assert consumer.core.wish.names == {"a", "b"}
    with Consumer(["a", "b"], bootstrap_servers="127.0.0.1:1") as consumer:
        assert consumer.core.wish is not None
        assert consumer.core.wish.names == {"a", "b"}
    with pytest.raises(SettingsError, match="given twice"):
        Consumer("a", topics="b", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(SettingsError, match="topics="):
        Consumer(config, "a")
    with pytest.raises(SettingsError, match=r"given by name"):
        Producer("127.0.0.1:1")  # type: ignore[arg-type]


def test_methods_of_other_clients_are_answered_with_ours() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        for name, said in {"produce": r"send\(", "poll": "nothing need", "stop": "close"}.items():
            with pytest.raises(AttributeError, match=said):
                getattr(producer, name)
        with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
            producer.nonsense  # type: ignore[attr-defined]  # noqa: B018
        assert not hasattr(producer, "produce")
    with (
        Consumer(bootstrap_servers="127.0.0.1:1") as consumer,
        pytest.raises(AttributeError, match=r"assigned\(\)"),
    ):
        consumer.assignment  # type: ignore[attr-defined]  # noqa: B018


async def test_and_of_asyncio() -> None:
    async with aio.Producer(bootstrap_servers="127.0.0.1:1") as producer:
        with pytest.raises(AttributeError, match="begins with its first call"):
            producer.start  # type: ignore[attr-defined]  # noqa: B018
