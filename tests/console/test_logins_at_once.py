"""Logins with a password in every request: one that takes long holds up nobody else."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.console.sessions import Sessions

CONFIG = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
}


class Waiting(Sessions):
    """Its broker takes its time for everybody but alice."""

    def __init__(self) -> None:
        super().__init__(CONFIG, None)
        self.asked: list[str] = []
        self.is_asked = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def _log_in(self, login: Any) -> Any:
        self.asked.append(login["sasl.username"])
        if login["sasl.username"] != "alice":
            self.is_asked.set()
            await self.may_go_on.wait()
        return SimpleNamespace(start=lambda: None, user=login["sasl.username"])


@pytest.mark.parametrize("known", [True, False])
async def test_a_guess_that_waits_holds_up_nobody_else(known):
    sessions = Waiting()
    if known:
        await sessions.login_again("alice", "secret")
    guess = asyncio.ensure_future(sessions.login_again("mallory", "guess"))
    async with asyncio.timeout(10):
        await sessions.is_asked.wait()
        await sessions.login_again("alice", "secret")
        assert sessions.asked.count("alice") == 1
        sessions.may_go_on.set()
        await guess


async def test_several_requests_at_once_are_one_login():
    sessions = Waiting()
    asking = [asyncio.ensure_future(sessions.login_again("bob", "secret")) for _ in range(5)]
    async with asyncio.timeout(10):
        await sessions.is_asked.wait()
        sessions.may_go_on.set()
        found = await asyncio.gather(*asking)
    assert sessions.asked == ["bob"]
    assert all(each is found[0] for each in found)
