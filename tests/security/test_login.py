"""The states of a login, PLAIN, and sessions that end."""

import pytest

from tidelog.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from tidelog.security.login import Login, State
from tidelog.security.plain import PlainExchange, plain_token
from tidelog.testing.manual_clock import ManualClock

PASSWORDS = {"alice": "secret", "bob": "other"}
RIGHT = plain_token("alice", "secret")


@pytest.fixture
def clock():
    return ManualClock()


def login(clock, max_session_ms: int = 0) -> Login:
    plain = {"PLAIN": lambda: PlainExchange(PASSWORDS.get), "OTHER": lambda: PlainExchange({}.get)}
    return Login(plain, monotonic=clock.monotonic, max_session_ms=max_session_ms)


def test_a_login(clock):
    made = login(clock)
    assert not made.is_logged_in
    made.choose("PLAIN")
    assert made.step(RIGHT) == (b"", "alice", 0)
    assert made.is_logged_in


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0wrong",
        b"\0nobody\0x",
        b"bob\0alice\0secret",
        b"\xff",
        b"a\0b\0c\0d",
    ],
)
def test_what_plain_refuses(clock, token):
    made = login(clock)
    made.choose("PLAIN")
    with pytest.raises(SaslAuthenticationFailed):
        made.step(token)
    assert made.state is State.FAILED
    assert not made.is_logged_in
    with pytest.raises(IllegalSaslState):
        made.step(RIGHT)
    with pytest.raises(IllegalSaslState):
        made.choose("PLAIN")


def test_whom_a_message_claims_to_be(clock):
    made = login(clock)
    assert made.claimed(RIGHT) == ""
    made.choose("PLAIN")
    assert made.claimed(RIGHT) == "alice"
    for token in (b"", b"\0alice", b"\0\0\0\0", b"\xff"):
        assert made.claimed(token) == ""


def test_a_mechanism_that_is_not_offered(clock):
    with pytest.raises(
        UnsupportedSaslMechanism, match="'MAGIC' is not offered here; these are: OTHER, PLAIN"
    ):
        login(clock).choose("MAGIC")


def test_a_message_before_the_handshake(clock):
    with pytest.raises(IllegalSaslState):
        login(clock).step(RIGHT)


def test_a_session_ends_and_is_renewed(clock):
    made = login(clock, max_session_ms=1_000)
    made.choose("PLAIN")
    assert made.step(RIGHT).session_ms == 1_000
    clock.advance(900)
    made.choose("PLAIN")
    assert made.is_logged_in
    made.step(RIGHT)
    clock.advance(900)
    assert made.is_logged_in
    clock.advance(200)
    assert not made.is_logged_in


def test_nobody_becomes_somebody_else(clock):
    made = login(clock)
    made.choose("PLAIN")
    made.step(RIGHT)
    made.choose("PLAIN")
    with pytest.raises(SaslAuthenticationFailed, match="user may not change"):
        made.step(plain_token("bob", "other"))
    assert not made.is_logged_in


def test_the_mechanism_stays(clock):
    made = login(clock)
    made.choose("PLAIN")
    made.step(RIGHT)
    with pytest.raises(SaslAuthenticationFailed, match="mechanism may not change"):
        made.choose("OTHER")
    assert not made.is_logged_in
