"""Settings: declared once, parsed, checked, overridden by a topic, told all at once."""

from dataclasses import FrozenInstanceError

import pytest

from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.settings import (
    Section,
    at_least,
    between,
    declared,
    names_of,
    one_of,
    setting,
    text_of,
    topic_settings,
)
from tidelog.storage.cleaner_config import CleanerConfig
from tidelog.storage.config import LogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Section):
    size: int = setting(
        "log.size", 10, "A size.", check=at_least(1), topic="size", also={"log.size.kb": 1024}
    )
    share: float = setting("share", 0.5, "A share.", check=between(0, 1))
    on: bool = setting("on", False, "A switch.", topic="on")
    words: tuple[str, ...] = setting(
        "words", ("a",), "Words.", check=one_of("a", "b"), topic="words"
    )
    name: str = setting("name", "x", "A name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needy(Section):
    id: int = setting("id", doc="Must be given.")


def test_defaults() -> None:
    assert Sample.load({}) == Sample()
    assert Sample.load({"unrelated": "1"}) == Sample()


def test_values_are_parsed() -> None:
    properties = {"log.size": "7", "share": "0.25", "on": "TRUE", "words": "a, b", "name": " y "}
    assert Sample.load(properties) == Sample(
        size=7, share=0.25, on=True, words=("a", "b"), name="y"
    )


def test_a_coarser_synonym_counts_in_its_own_unit_and_yields_to_the_name() -> None:
    assert Sample.load({"log.size.kb": "2"}).size == 2048
    assert Sample.load({"log.size.kb": "2", "log.size": "3"}).size == 3
    assert LogConfig.load({"log.retention.hours": "-1"}).retention_ms == -1
    assert LogConfig.load({"log.retention.minutes": "2"}).retention_ms == 120_000


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Sample.load({"log.size": "0", "share": "2", "on": "yes", "words": "c", "name": ""})
    message = str(caught.value)
    assert "log.size='0' must be at least 1" in message
    assert "share='2' must be between 0 and 1" in message
    assert "on='yes' must be true or false" in message
    assert "words='c' must be one of a, b" in message
    assert "name" not in message


@pytest.mark.parametrize(
    ("text", "why"), [("x", "a whole number"), ("1.5", "a whole number"), ("", "a whole number")]
)
def test_a_number_must_be_one(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        Sample.load({"log.size": text})


def test_a_setting_without_default_must_be_set() -> None:
    with pytest.raises(SettingsError, match="id must be set"):
        Needy.load({})
    assert Needy.load({"id": "3"}).id == 3


def test_a_topic_overrides_by_its_own_names() -> None:
    broker = Sample(size=5)
    assert broker.over({"size": "6", "on": "true"}) == Sample(size=6, on=True)
    assert broker.over({}) == broker
    with pytest.raises(SettingsError) as caught:
        broker.over({"log.size": "6", "size": "0", "share": "1"})
    assert "log.size is not a topic setting" in str(caught.value)
    assert "size='0' must be at least 1" in str(caught.value)
    assert "share is not a topic setting" in str(caught.value)


def test_an_empty_list_is_none_of_the_allowed() -> None:
    with pytest.raises(SettingsError):
        Sample.load({"words": ""})


def test_a_section_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Sample().size = 3  # type: ignore[misc]


def test_what_is_declared_can_be_listed() -> None:
    assert [each.attribute for each in declared(Sample)] == ["size", "share", "on", "words", "name"]
    assert list(names_of(Sample)) == ["log.size", "log.size.kb", "share", "on", "words", "name"]
    assert set(topic_settings(Sample)) == {"size", "on", "words"}


@pytest.mark.parametrize("section", [LogConfig, CleanerConfig, Sample])
def test_a_default_passes_its_own_check_and_survives_as_text(section: type[Section]) -> None:
    texts = {each.spec.name: text_of(each.default) for each in declared(section)}
    assert section.load(texts) == section()
    assert all(each.spec.doc.endswith(".") for each in declared(section))
    assert len(set(names_of(section))) == len(list(names_of(section)))


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (("a", "b"), "a,b"), (None, ""), (3, "3")]
)
def test_values_as_text(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("text", ["1_000", str(1 << 63), "1e3", "", " "])
def test_a_whole_number_is_one_of_kafkas(text: str) -> None:
    with pytest.raises(SettingsError, match="whole number"):
        LogConfig().over({"retention.ms": text})


def test_what_is_an_int_to_kafka_has_32_bits() -> None:
    for name in ("segment.bytes", "max.message.bytes", "segment.index.bytes"):
        with pytest.raises(SettingsError, match=name):
            LogConfig().over({name: str(1 << 31)})
