"""Logins that fail in great number: what is told of them, and who still comes in."""

import json
import logging
from typing import Any, cast

import pytest

from tidelog.broker.audit_trail import AuditTrail, FileSink
from tidelog.broker.dispatch import Serving
from tidelog.broker.gate import Gate, PeerLogin, log_in
from tidelog.errors import SaslAuthenticationFailed
from tidelog.network.peer import Address, Peer
from tidelog.security.login import Login
from tidelog.security.plain import PlainExchange, plain_token
from tidelog.security.slow_logins import FREE
from tidelog.testing.manual_clock import ManualClock

NO_DELAY_S = 1e-9


class Rig:
    def __init__(self, tmp_path) -> None:
        self.clock = ManualClock()
        self.trail = AuditTrail(FileSink(str(tmp_path / "trail")), 0, self.clock)
        self.gate = Gate(
            cast(Serving, None),
            {},
            failed_delay_s=lambda: NO_DELAY_S,
            monotonic=self.clock.monotonic,
            trail=self.trail,
        )

    async def log_in(self, user: str, password: str) -> None:
        login = Login(
            {"PLAIN": lambda: PlainExchange({"alice": "secret"}.get)},
            monotonic=self.clock.monotonic,
        )
        login.choose("PLAIN")
        peer = Peer(Address("10.0.0.1", 1), Address("10.0.0.2", 2), "SASL")
        await log_in(peer, PeerLogin(login, self.gate), plain_token(user, password), NO_DELAY_S)

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.trail._queue]

    def guess_until_refused(self) -> None:
        with pytest.raises(SaslAuthenticationFailed, match="too many"):
            self._guess()

    def _guess(self) -> None:
        while True:
            self.gate.slow.wait_s("10.0.0.1", 100.0, "mallory")
            self.gate.slow.failed("10.0.0.1", "mallory")


async def test_of_logins_that_are_refused_unseen_one_in_ten_seconds_is_told(tmp_path, caplog):
    rig = Rig(tmp_path)
    rig.guess_until_refused()
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            with pytest.raises(SaslAuthenticationFailed, match="too many"):
                await rig.log_in("mallory", "guess")
        assert len(caplog.records) == len(rig.told()) == 1
        rig.clock.advance(10_000)
        rig.guess_until_refused()
        with pytest.raises(SaslAuthenticationFailed, match="too many"):
            await rig.log_in("mallory", "guess")
    assert len(caplog.records) == len(rig.told()) == 2
    assert "50 such since the last line" in rig.told()[1]["detail"]["reason"]
    assert rig.gate.counts.failed == 51


async def test_whoever_was_here_before_comes_in_while_others_guess(tmp_path):
    rig = Rig(tmp_path)
    await rig.log_in("alice", "secret")
    rig.guess_until_refused()
    await rig.log_in("alice", "secret")
    assert rig.gate.counts.succeeded == 2


async def test_failures_that_were_looked_at_are_all_told(tmp_path):
    rig = Rig(tmp_path)
    for _ in range(FREE):
        with pytest.raises(SaslAuthenticationFailed, match="wrong"):
            await rig.log_in("alice", "guess")
    assert [each["detail"]["user"] for each in rig.told()] == ["alice"] * FREE
