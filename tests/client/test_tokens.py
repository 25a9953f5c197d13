"""Tokens for OAUTHBEARER: fetched when needed, kept while good, fetched anew before they expire."""

import asyncio
import base64
import json
from typing import Any

import pytest

from tidelog import Admin, Producer
from tidelog.client.tokens import Tokens
from tidelog.errors import SaslAuthenticationFailed, SettingsError


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def jwt(**claims: object) -> str:
    def part(what: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(what).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'RS256'})}.{part(claims)}.c2ln"


@pytest.mark.parametrize("kind", ["plain", "pair", "async", "object", "async object"])
async def test_a_token_is_kept_until_it_is_nearly_over(kind: str) -> None:
    clock = Clock()
    calls = 0

    def given() -> Any:
        nonlocal calls
        calls += 1
        if kind == "pair":
            return f"token {calls}", clock.now + 100
        return jwt(exp=clock.now + 100, number=calls)

    async def later() -> Any:
        return given()

    class Provider:
        def token(self) -> Any:
            return later() if kind == "async object" else given()

    provider: Any = later if kind == "async" else Provider() if "object" in kind else given
    tokens = Tokens(provider, clock)
    first = await tokens.token()
    clock.now += 79
    assert await tokens.token() == first
    assert calls == 1
    clock.now += 2
    assert await tokens.token() != first
    assert calls == 2


async def test_a_token_that_says_no_time_is_used_once() -> None:
    numbers = iter(range(10))
    tokens = Tokens(lambda: f"opaque {next(numbers)}")
    assert [await tokens.token(), await tokens.token()] == ["opaque 0", "opaque 1"]


async def test_logins_at_once_share_a_token() -> None:
    calls: list[int] = []

    def given() -> tuple[str, float]:
        calls.append(1)
        return "one", float("inf")

    tokens = Tokens(given)
    assert await asyncio.gather(*(tokens.token() for _ in range(5))) == ["one"] * 5
    assert len(calls) == 1


async def test_the_last_token_is_used_while_it_is_good(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    answers: list[Any] = [("good", clock.now + 100)]

    def given() -> Any:
        if not answers:
            raise ConnectionError("the identity provider is away")
        return answers.pop()

    tokens = Tokens(given, clock)
    await tokens.token()
    clock.now += 90
    assert await tokens.token() == "good"
    assert "is away" in caplog.text
    clock.now += 20
    with pytest.raises(SaslAuthenticationFailed, match="ConnectionError: the identity provider"):
        await tokens.token()


@pytest.mark.parametrize("given", [None, b"octets", "", (5, 1.0)])
async def test_what_is_no_token_is_told(given: Any) -> None:
    with pytest.raises(SaslAuthenticationFailed, match="must return a token as text"):
        await Tokens(lambda: given).token()


def test_the_error_names_options_that_exist() -> None:
    settings = {
        "bootstrap_servers": "127.0.0.1:1",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    with pytest.raises(SettingsError, match="OAUTHBEARER needs a token") as told:
        Producer(**settings)
    for name in ("sasl_oauth_token_provider", "sasl_oauthbearer_token"):
        assert name in str(told.value)
        with Admin(**settings, **{name: "x" if name.endswith("token") else lambda: "x"}):
            pass
    with pytest.raises(SettingsError, match=r"sasl\.oauth\.token\.provider.*function"):
        Producer(**settings, sasl_oauth_token_provider="text")
