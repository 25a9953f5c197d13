"""Settings under Kafka's names, as a mapping, as keywords, or both."""

import pytest

from tidelog.client.settings import ConsumerSettings, ProducerSettings, load
from tidelog.errors import SettingsError
from tidelog.records import Codec


def test_both_spellings_and_pythons_values() -> None:
    settings = load(
        ProducerSettings,
        {"bootstrap.servers": ["a:1", "b:2"], "linger.ms": "7", "acks": -1},
        {"linger_ms": 20, "compression_type": "lz4"},
    )
    assert settings.bootstrap_servers == ("a:1", "b:2")
    assert settings.linger_ms == 20
    assert settings.codec is Codec.LZ4
    assert settings.acks_number == -1
    assert settings.idempotent


def test_fewer_acks_end_idempotence() -> None:
    assert not load(ProducerSettings, None, {"bootstrap_servers": "a:1", "acks": 1}).idempotent


def test_the_old_names_of_both_ends() -> None:
    settings = load(
        ConsumerSettings, None, {"bootstrap_servers": "a:1", "auto_offset_reset": "smallest"}
    )
    assert settings.reset == "earliest"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"bootstrap_server": "a:1"},
            "bootstrap.server is not a setting of this client; bootstrap.servers is",
        ),
        ({"bootstrap_servers": "a:1", "acks": "some"}, "acks='some' must be one of"),
        ({}, "bootstrap.servers must be set"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(ProducerSettings, None, options)


def test_none_leaves_a_setting_as_it_is() -> None:
    given = {"bootstrap_servers": "x:1", "compression_type": None, "transactional_id": None}
    settings = load(ProducerSettings, {"linger.ms": None}, given)
    assert settings == load(ProducerSettings, None, {"bootstrap_servers": "x:1"})
    with pytest.raises(SettingsError, match=r"bootstrap\.servers must be set"):
        load(ProducerSettings, None, {"bootstrap_servers": None})
    with pytest.raises(SettingsError, match=r"compresion\.type"):
        load(ProducerSettings, None, {"compresion_type": "lz4"})
