"""Who is logged in: a user's own login at the broker, held here, and named by a cookie that scripts cannot read.

The password is kept in memory as long as the session, because the clients connect again when they have to; it is in no answer and
no log.  Sessions end when they were idle for too long, or are too old, or too many.

`curl -u alice:secret` works as well: the same user and password find the same session again.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from weakref import WeakValueDictionary

from tidelog.client.settings import ClientSettings, load
from tidelog.console.clients import Clients
from tidelog.console.errors import ConsoleError
from tidelog.dataclass import dataclass
from tidelog.errors import KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanism

IDLE_S = 30 * 60
OLDEST_S = 12 * 3600
MOST = 100
_LOGINS_AT_ONCE = 16
"""More than a broker lets wait that has been guessed at for a while (`security/slow_logins.py`): else guesses would keep others out."""


@dataclass(slots=True)
class Session:
    """A user who has logged in."""

    user: str
    clients: Clients = field(repr=False)
    began: float
    seen: float


class Sessions:
    """All of them; without a login there is one, for everybody."""

    def __init__(
        self,
        config: Mapping[str, str],
        registry_url: str | None,
        mechanisms: Sequence[str] = (),
    ) -> None:
        """A login is tried with each of the mechanisms, or with the one of `config`."""
        self._config = dict(config)
        self._registry_url = registry_url
        settings = load(ClientSettings, config, {})
        self.needs_login = settings.security_protocol.startswith("SASL")
        self._mechanisms = list(mechanisms) or [settings.sasl_mechanism]
        self._everybody = None if self.needs_login else Clients(config, registry_url)
        self._sessions: dict[str, Session] = {}
        self._salt = secrets.token_bytes(16)
        self._logins = asyncio.Semaphore(_LOGINS_AT_ONCE)
        """Guessing passwords is slow by the broker's own delay, and not made faster by asking in parallel."""
        self._again: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of those who send their password with every request and are not in yet."""

    def start(self) -> None:
        if self._everybody is not None:
            self._everybody.start()

    async def find(self, token: str | None) -> Session | None:
        """The session of this cookie; None if there is none, or if it is over."""
        await self._expire()
        session = self._sessions.get(token or "")
        if session is not None:
            session.seen = time.monotonic()
        return session

    async def clients(self, token: str | None) -> Clients:
        """Whom to ask in the name of this cookie's owner; 401 if nobody is logged in."""
        if self._everybody is not None:
            return self._everybody
        session = await self.find(token)
        if session is None:
            raise ConsoleError(401, "login_required", "log in with a user of the broker")
        return session.clients

    async def login(self, user: str, password: str) -> str:
        """Log in at the broker; the answer names the session."""
        return await self._begin(secrets.token_urlsafe(32), user, password)

    async def login_again(self, user: str, password: str) -> Clients:
        """The clients of a user who sends the password with every request."""
        told = f"{user}\0{password}".encode("utf-8", "replace")
        token = hashlib.scrypt(told, salt=self._salt, n=1024, r=8, p=1).hex()
        found = await self.find(token)
        if found is None:
            # Several requests at once are one login; nobody else waits for it, because it may be a guess.
            lock = self._again.setdefault(token, asyncio.Lock())
            async with lock:
                found = await self.find(token)
                if found is None:
                    await self._begin(token, user, password)
                    found = self._sessions[token]
        return found.clients

    async def logout(self, token: str | None) -> None:
        session = self._sessions.pop(token or "", None)
        if session is not None:
            await session.clients.close()

    async def close(self) -> None:
        for token in list(self._sessions):
            await self.logout(token)
        if self._everybody is not None:
            await self._everybody.close()

    async def _begin(self, token: str, user: str, password: str) -> str:
        if not self.needs_login:
            raise ConsoleError(409, "no_login", "this broker asks for no login")
        if not user or not password:
            raise ConsoleError(401, "login_refused", "a user and a password are needed")
        async with self._logins:
            clients = await self._log_in({"sasl.username": user, "sasl.password": password})
        clients.start()
        now = time.monotonic()
        self._sessions[token] = Session(user, clients, now, now)
        return token

    async def _log_in(self, login: Mapping[str, str]) -> Clients:
        """Clients that the broker has let in, by the first mechanism that does."""
        refusal: KafkaError = SaslAuthenticationFailed()
        for mechanism in self._mechanisms:
            config = {**self._config, **login, "sasl.mechanism": mechanism}
            clients = Clients(config, self._registry_url)
            try:
                await clients.admin.describe_cluster()
            except (SaslAuthenticationFailed, UnsupportedSaslMechanism) as error:
                await clients.close()
                refusal = error
            except BaseException:
                await clients.close()
                raise
            else:
                return clients
        raise refusal

    async def _expire(self) -> None:
        now = time.monotonic()
        over = [
            token
            for token, each in self._sessions.items()
            if now - each.seen > IDLE_S or now - each.began > OLDEST_S
        ]
        by_age = sorted(self._sessions, key=lambda token: self._sessions[token].seen)
        for token in {*over, *by_age[: max(0, len(by_age) - MOST)]}:
            await self.logout(token)
