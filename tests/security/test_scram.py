"""SCRAM: the vectors of the RFCs, both sides against each other, and what must be refused."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import SaslAuthenticationFailed
from tidelog.security.scram import (
    Credential,
    Mechanism,
    ScramClient,
    ScramExchange,
    Shape,
    made_up,
)

SECRET = b"of this server"


def test_the_exchange_of_rfc_7677():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = Credential.of(Mechanism.SHA_256, "pencil", salt=salt, iterations=4096)
    exchange = ScramExchange(
        Mechanism.SHA_256, {"user": credential}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", SECRET
    )
    challenge, user = exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert user is None
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    answer, user = exchange.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert user == "user"
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@given(
    mechanism=st.sampled_from(Mechanism),
    user=st.text(min_size=1).filter(lambda text: text.isprintable() and text.strip()),
    password=st.text(min_size=1).filter(str.isprintable),
)
def test_both_sides_agree(mechanism, user, password):
    credential = Credential.of(mechanism, password, salt=b"salt")
    server = ScramExchange(mechanism, {user: credential}.get, "server", SECRET)
    client = ScramClient(mechanism, user, password, "client")
    challenge, _ = server.respond(client.first())
    answer, logged_in = server.respond(client.final(challenge))
    client.check(answer)
    assert logged_in == user


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_look_alike(user):
    credential = Credential.of(Mechanism.SHA_256, "right", salt=b"0123456789abcdef")
    shapes = {Shape.of(credential)}
    server = ScramExchange(Mechanism.SHA_256, {"alice": credential}.get, "server", SECRET, shapes)
    client = ScramClient(Mechanism.SHA_256, user, "wrong", "client")
    challenge, _ = server.respond(client.first())
    assert b",i=4096" in challenge
    with pytest.raises(SaslAuthenticationFailed, match="the user or the password is wrong"):
        server.respond(client.final(challenge))


def test_the_made_up_salt_of_an_unknown_user_stays_the_same():
    def challenge(user: str) -> bytes:
        server = ScramExchange(Mechanism.SHA_256, lambda _: None, "s", SECRET)
        return server.respond(b"n,,n=%s,r=c" % user.encode())[0]

    assert challenge("nobody") == challenge("nobody") != challenge("noone")


def salt_and_iterations(challenge: bytes) -> tuple[bytes, bytes]:
    _, salt, iterations = challenge.split(b",")
    return base64.b64decode(salt.removeprefix(b"s=")), iterations


def test_an_unknown_user_looks_like_those_there_are():
    """Kafka's tools make salts of letters and digits, confluent-kafka's of 64 bytes, ours of 24."""
    of_java = Credential.of(
        Mechanism.SHA_256, "x", salt=b"1a2b3c4d5e6f7g8h9i0j1k2l3m", iterations=4096
    )
    of_others = Credential.of(Mechanism.SHA_256, "x", salt=bytes(range(64)), iterations=10000)
    shapes = {Shape.of(of_java), Shape.of(of_others)}
    seen = set()
    for user in map(str, range(50)):
        server = ScramExchange(Mechanism.SHA_256, lambda _: None, "s", SECRET, shapes)
        salt, iterations = salt_and_iterations(server.respond(b"n,,n=%s,r=c" % user.encode())[0])
        seen.add((len(salt), iterations, salt.isalnum() and salt.islower()))
    assert seen == {(26, b"i=4096", True), (64, b"i=10000", False)}


def test_a_made_up_user_cannot_log_in_even_with_the_secret():
    user = "nobody"
    known = made_up(Mechanism.SHA_256, user, SECRET, [Shape(24, 8192, is_text=False)])
    server = ScramExchange(Mechanism.SHA_256, {"alice": known}.get, "s", SECRET)
    server.respond(b"n,,n=nobody,r=c")
    for proof in (b"", b"x" * 32, known.stored_key):
        with pytest.raises(SaslAuthenticationFailed):
            server.respond(b"c=biws,r=cs,p=" + base64.b64encode(proof))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"p=tls,,n=a,r=b",
        b"n,,n=,r=b",
        b"n,,n=a,r=",
        b"n,a=b,n=a,r=b",
        b"n,,n=\xff,r=b",
    ],
)
def test_a_bad_first_message(token):
    server = ScramExchange(Mechanism.SHA_256, lambda _: None, "s", SECRET)
    with pytest.raises(SaslAuthenticationFailed):
        server.respond(token)


@pytest.mark.parametrize(
    "token",
    [b"", b"c=biws,r=cs,p=", b"c=biws,r=cs,p=!", b"c=x,r=cs,p=aaaa", b"c=biws,r=other,p=aaaa"],
)
def test_a_bad_second_message(token):
    credential = Credential.of(Mechanism.SHA_256, "x", salt=b"salt")
    server = ScramExchange(Mechanism.SHA_256, {"a": credential}.get, "s", SECRET)
    server.respond(b"n,,n=a,r=c")
    with pytest.raises(SaslAuthenticationFailed):
        server.respond(token)


@given(tokens=st.lists(st.binary(max_size=100), max_size=3))
def test_garbage_is_refused_and_nothing_else_happens(tokens):
    credential = Credential.of(Mechanism.SHA_512, "x", salt=b"salt")
    server = ScramExchange(Mechanism.SHA_512, {"a": credential}.get, "s", SECRET)
    for token in tokens:
        claimed = server.claims(token)
        try:
            _, user = server.respond(token)
        except SaslAuthenticationFailed:
            continue
        assert user is None
        assert claimed == server.user


def test_a_server_without_the_password_is_found_out():
    client = ScramClient(Mechanism.SHA_256, "alice", "secret", "client")
    client.final(b"r=clientserver,s=c2FsdA==,i=4096")
    with pytest.raises(SaslAuthenticationFailed, match="could not prove"):
        client.check(b"v=AAAA")


@pytest.mark.parametrize(
    "challenge", [b"", b"r=other,s=,i=4096", b"r=client1,s=,i=1", b"r=client1,s=,i=x"]
)
def test_a_client_refuses_a_bad_challenge(challenge):
    client = ScramClient(Mechanism.SHA_256, "alice", "secret", "client")
    with pytest.raises(SaslAuthenticationFailed):
        client.final(challenge)
