"""The error tree agrees with Kafka's table of codes."""

import kafka.errors
import pytest

from tidelog import errors
from tidelog.errors import BY_CODE, CorruptMessage, KafkaError, UnknownServerError, error_of

OURS = sorted(BY_CODE.values(), key=lambda each: each.code)
THEIRS = {
    each.errno: each
    for each in vars(kafka.errors).values()
    if isinstance(each, type)
    and issubclass(each, kafka.errors.BrokerResponseError)
    and isinstance(getattr(each, "errno", None), int)
}


def test_a_class_a_code() -> None:
    codes = [each.code for each in KafkaError.__subclasses__()]
    assert len(codes) == len(set(codes))
    assert sorted(codes) == [-1, *range(1, max(codes) + 1)]


@pytest.mark.parametrize("error", OURS, ids=lambda each: each.__name__)
def test_every_error_can_tell_what_was_wrong(error: type[KafkaError]) -> None:
    assert error.text
    assert str(error()) == error.text == error().message
    assert str(error("this one")) == "this one"


# Kafka's own CorruptRecordException is retriable; kafka-python thinks otherwise.
@pytest.mark.parametrize("code", sorted(THEIRS.keys() & BY_CODE.keys() - {CorruptMessage.code}))
def test_kafka_python_retries_what_we_call_retriable(code: int) -> None:
    assert BY_CODE[code].retriable == bool(THEIRS[code].retriable), BY_CODE[code].__name__


def test_a_code_becomes_an_error_and_an_unknown_one_a_server_error() -> None:
    assert type(error_of(2)) is CorruptMessage
    assert error_of(2, "torn").message == "torn"
    assert type(error_of(12345)) is UnknownServerError


def test_our_own_errors_are_no_answers() -> None:
    for each in (errors.ProtocolError, errors.SettingsError, errors.StartError):
        assert issubclass(each, errors.TidelogError)
        assert not issubclass(each, KafkaError)
