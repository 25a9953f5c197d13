"""OAUTHBEARER: real signatures, and every way in which a token can be wrong."""

import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tidelog.errors import SaslAuthenticationFailed, SettingsError
from tidelog.security.login import Login
from tidelog.security.oauthbearer import BearerExchange, TokenCheck, TokenKeys
from tidelog.testing.manual_clock import ManualClock

NOW = 1_700_000_000.0
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def write_keys(path, **keys):
    listed = []
    for name, key in keys.items():
        algorithm = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
        listed.append({**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name})
    path.write_text(json.dumps({"keys": listed}))
    return path


@pytest.fixture
def keys(tmp_path):
    return TokenKeys(str(write_keys(tmp_path / "jwks.json", one=RSA, two=CURVE)))


def token(key=RSA, kid="one", algorithm="RS256", **claims):
    given = {"sub": "alice", "exp": NOW + 3600, "aud": "tidelog", **claims}
    given = {name: value for name, value in given.items() if value is not None}
    return jwt.encode(given, key, algorithm=algorithm, headers={"kid": kid})


def message(signed: str) -> bytes:
    return f"n,,\x01auth=Bearer {signed}\x01\x01".encode()


def respond(keys, data: bytes, **rest):
    return BearerExchange(TokenCheck(keys, lambda: NOW, audience="tidelog", **rest)).respond(data)


def test_a_login(keys):
    assert respond(keys, message(token())) == (b"", "alice")
    assert respond(keys, message(token(CURVE, "two", "ES256"))) == (b"", "alice")


def test_the_login_is_good_for_as_long_as_the_token(keys):
    clock = ManualClock()
    check = TokenCheck(keys, lambda: NOW)
    login = Login({"OAUTHBEARER": lambda: BearerExchange(check)}, monotonic=clock.monotonic)
    login.choose("OAUTHBEARER")
    assert login.step(message(token(aud=None))).session_ms == 3_600_000


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        (lambda: token(OTHER), "not valid"),
        (lambda: token(kid="nobody"), "key that is not known"),
        (lambda: token(exp=NOW - 31), "expired"),
        (lambda: token(exp=None), "when it ends"),
        (lambda: token(nbf=NOW + 60), "not valid yet"),
        (lambda: token(aud="other"), "not valid"),
        (lambda: token(sub=None), "no claim 'sub'"),
        (
            lambda: jwt.encode(
                {"sub": "alice", "exp": NOW + 9}, None, algorithm="none", headers={"kid": "one"}
            ),
            "not valid",
        ),
        (
            lambda: jwt.encode(
                {"sub": "alice", "exp": NOW + 9},
                "secret" * 6,
                algorithm="HS256",
                headers={"kid": "one"},
            ),
            "not valid",
        ),
        (lambda: "garbage", "not valid"),
    ],
)
def test_what_is_refused(keys, signed, reason):
    with pytest.raises(SaslAuthenticationFailed, match=reason):
        respond(keys, message(signed()))


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"n,,", b"n,,\x01auth=Basic x\x01\x01", b"p,,\x01auth=Bearer x\x01\x01"]
)
def test_what_is_no_bearer_message(keys, data):
    with pytest.raises(SaslAuthenticationFailed):
        respond(keys, data)


@pytest.mark.parametrize("part", [0, 1])
def test_a_token_that_is_nested_too_deep_is_not_valid(keys, part):
    parts = token().split(".")
    parts[part] = base64.urlsafe_b64encode(b'{"a":' + b"[" * 90_000).decode().rstrip("=")
    with pytest.raises(SaslAuthenticationFailed):
        respond(keys, message(".".join(parts)))


def test_whom_a_token_claims_to_be(keys):
    exchange = BearerExchange(TokenCheck(keys, lambda: NOW))
    assert exchange.claims(message(token())) == "alice"
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 90_000).decode().rstrip("=")
    for signed in ("", "a.b.c", f"{deep}.{deep}.x"):
        assert exchange.claims(message(signed)) == ""
    assert exchange.claims(b"\xff") == ""


def test_nobody_logs_in_for_another(keys):
    with pytest.raises(SaslAuthenticationFailed, match="in the name of another"):
        respond(keys, f"n,a=bob,\x01auth=Bearer {token()}\x01\x01".encode())


def test_another_issuer_is_refused(keys):
    assert respond(keys, message(token(iss="https://id")), issuer="https://id")
    with pytest.raises(SaslAuthenticationFailed):
        respond(keys, message(token(iss="https://evil")), issuer="https://id")


def test_keys_are_read_again(keys, tmp_path):
    write_keys(tmp_path / "jwks.json", three=OTHER)
    assert respond(keys, message(token(OTHER, "three"))) == (b"", "alice")
    (tmp_path / "jwks.json").write_text("half")
    assert respond(keys, message(token(OTHER, "three"))) == (b"", "alice")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": 1}', '{"keys": [1]}', '{"keys": [{"kty": "x"}]}']
)
def test_a_bad_key_file(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(SettingsError, match=r"bad\.json"):
        TokenKeys(str(tmp_path / "bad.json"))
