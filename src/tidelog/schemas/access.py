"""Who may do what with a registry: users of the broker, and rules of who may read, register, configure and delete.

    access = Access(BrokerLogins(config), parse_rules(["alice read,register orders-*", "* read *"]))
    user = await access.who(headers)                # 401 unless the broker lets him in
    access.may(user, REGISTER, "orders-value")

A user is one of the broker's, with his password there (HTTP's Basic): the registry has no users of its own.  A rule is three words:
a user or `*`, operations with commas between them or `*`, and a subject, a prefix with `*` behind it, or `*` for everything
including what holds for all subjects.  Without rules whoever is logged in may do everything; with rules, what one of them allows.
"""

import asyncio
import base64
import binascii
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from tidelog.client.admin import AsyncAdmin
from tidelog.dataclass import dataclass
from tidelog.errors import (
    KafkaError,
    SaslAuthenticationFailed,
    SettingsError,
    TidelogError,
    UnsupportedSaslMechanism,
)
from tidelog.schemas.errors import RegistryError

READ, REGISTER, CONFIGURE, DELETE = "read", "register", "configure", "delete"
OPERATIONS = (READ, REGISTER, CONFIGURE, DELETE)

_REMEMBERED_S = 300.0
"""A login is good for this long; then the broker is asked again, and may have forgotten the user."""
_MOST_REMEMBERED = 1_000
_LOGINS_AT_ONCE = 16
"""More than a broker lets wait that has been guessed at for a while (`security/slow_logins.py`): else guesses would keep others out."""


class Logins(Protocol):
    """Knows users and their passwords."""

    async def check(self, user: str, password: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rule:
    user: str
    operations: frozenset[str]
    subjects: str
    """A name, or a prefix with `*` behind it."""

    def allows(self, user: str, operation: str, subject: str | None) -> bool:
        if self.user not in ("*", user) or operation not in self.operations:
            return False
        if self.subjects == "*":
            return True
        if subject is None:
            return False
        if self.subjects.endswith("*"):
            return subject.startswith(self.subjects[:-1])
        return subject == self.subjects


def parse_rules(lines: Iterable[str]) -> list[Rule]:
    """Rules, one a line; empty lines and those that begin with # are none.  `SettingsError` names the bad one."""
    found = []
    for line in lines:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3:
            raise SettingsError(
                f"{line.strip()!r} is not a rule; write USER OPERATIONS SUBJECTS, such as 'alice read,register orders-*'"
            )
        user, operations, subjects = words
        named = OPERATIONS if operations == "*" else operations.split(",")
        for each in named:
            if each not in OPERATIONS:
                raise SettingsError(
                    f"{line.strip()!r}: {each!r} is not one of {', '.join(OPERATIONS)}"
                )
        found.append(Rule(user, frozenset(named), subjects))
    return found


class Access:
    """See the module's docstring."""

    def __init__(self, logins: Logins, rules: Sequence[Rule] = ()) -> None:
        self._logins = logins
        self._rules = list(rules)

    async def who(self, authorization: str) -> str:
        """The user that this header names; raises unless the password is right."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "basic":
            raise not_logged_in("log in with a user of the broker")
        try:
            user, colon, password = base64.b64decode(token, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise not_logged_in("the login is not that of HTTP's Basic") from None
        if not colon or not user or not password:
            raise not_logged_in("a user and a password are needed")
        if not await self._logins.check(user, password):
            raise not_logged_in("the broker does not know this user with this password")
        return user

    def may(self, user: str, operation: str, subject: str | None) -> bool:
        return not self._rules or any(each.allows(user, operation, subject) for each in self._rules)


class BrokerLogins:
    """Asks the broker, and remembers for a while whom it has let in; of passwords only a salted hash."""

    def __init__(
        self,
        config: Mapping[str, str],
        mechanisms: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = dict(config)
        self._mechanisms = list(mechanisms)
        self._monotonic = monotonic
        self._salt = secrets.token_bytes(16)
        self._known: dict[bytes, float] = {}
        self._at_once = asyncio.Semaphore(_LOGINS_AT_ONCE)
        """Guessing is slow by the broker's own delay, and not made faster by asking in parallel."""

    async def check(self, user: str, password: str) -> bool:
        # Cheap on purpose: it is asked for every request, and the hash never leaves the memory.
        told = f"{user}\0{password}".encode()
        key = hashlib.scrypt(told, salt=self._salt, n=1024, r=8, p=1)
        if self._known.get(key, 0.0) > self._monotonic():
            return True
        async with self._at_once:
            if self._known.get(key, 0.0) > self._monotonic():  # meanwhile
                return True
            if not await self._log_in(user, password):
                self._known.pop(key, None)
                return False
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = self._monotonic() + _REMEMBERED_S
        return True

    async def _log_in(self, user: str, password: str) -> bool:
        for mechanism in self._mechanisms:
            login = {
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
            }
            admin = AsyncAdmin({**self._config, **login})
            try:
                await admin.describe_cluster()
                return True
            except (SaslAuthenticationFailed, UnsupportedSaslMechanism):
                continue
            except KafkaError:
                return True  # it was let in, and may not ask for this
            except TidelogError as error:
                raise RegistryError(
                    503, 50301, f"the broker cannot be asked who you are: {error}"
                ) from error
            finally:
                await admin.close()
        return False


def not_logged_in(why: str) -> RegistryError:
    return RegistryError(401, 40101, why)


def not_allowed(user: str, operation: str, subject: str | None) -> RegistryError:
    what = "what holds for all subjects" if subject is None else f"the subject '{subject}'"
    return RegistryError(403, 40301, f"User {user} may not {operation} {what}")
