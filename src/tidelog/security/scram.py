"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): a login that never shows the password.

    credential = Credential.of(Mechanism.SHA_256, "secret", salt=os.urandom(16))
    exchange = ScramExchange(Mechanism.SHA_256, find, nonce)        # the server's side
    challenge, user = exchange.respond(token)                       # twice; the second time `user` is known

The server keeps what proves a password right, not the password.  Whoever asks for a user that does not exist is answered
like everybody else and fails at the end, so that names cannot be guessed: with a salt and iterations that look like those of
users there are, the same whenever and whichever broker is asked, for as long as `secret` is the same.

    client-first   n,,n=alice,r=<client nonce>
    server-first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client-final   c=biws,r=<both nonces>,p=<proof>
    server-final   v=<signature>
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import NamedTuple

from tidelog.errors import SaslAuthenticationFailed

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
_WITHOUT_CHANNEL_BINDING = b"biws"  # base64 of "n,,"
_LARGEST_TOKEN = 64 * 1024
_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Mechanism(Enum):
    """The value is Kafka's number of it (ScramMechanism)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-SHA-{self.name[4:]}"

    @property
    def digest(self) -> str:
        return f"sha{self.name[4:]}"


class Credential(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(
        cls, mechanism: Mechanism, password: str, *, salt: bytes, iterations: int = MIN_ITERATIONS
    ) -> "Credential":
        salted = hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)
        return cls.of_salted(mechanism, salted, salt=salt, iterations=iterations)

    @classmethod
    def of_salted(
        cls, mechanism: Mechanism, salted_password: bytes, *, salt: bytes, iterations: int
    ) -> "Credential":
        """From what AlterUserScramCredentials carries."""
        client_key = _hmac(mechanism, salted_password, b"Client Key")
        return cls(
            salt,
            iterations,
            stored_key=hashlib.new(mechanism.digest, client_key).digest(),
            server_key=_hmac(mechanism, salted_password, b"Server Key"),
        )


class Shape(NamedTuple):
    """What a stranger sees of a credential besides its bytes; who made it can be told by it."""

    salt_bytes: int
    iterations: int
    is_text: bool
    """Java's tools make salts of letters and digits."""

    @classmethod
    def of(cls, credential: Credential) -> "Shape":
        salt = credential.salt
        return cls(len(salt), credential.iterations, not salt.strip(_ALPHABET))


SALT_BYTES = 24
ITERATIONS = 8192
"""Of the credentials that our own tools make."""
_OUR_SHAPE = Shape(SALT_BYTES, ITERATIONS, is_text=False)


def made_up(mechanism: Mechanism, user: str, secret: bytes, shapes: Iterable[Shape]) -> Credential:
    """A credential for a user that does not exist, which looks like one of `shapes` and fits no password."""
    key = hmac.digest(secret, user.encode(), "sha256")
    # Each name keeps its shape while there are others to choose from (rendezvous hashing).
    shape = max(shapes, key=lambda each: hmac.digest(key, repr(each).encode(), "sha256"))
    salt = hashlib.shake_256(key).digest(shape.salt_bytes)
    if shape.is_text:
        salt = bytes(_ALPHABET[each % len(_ALPHABET)] for each in salt)
    wrong = hmac.digest(key, b"key", mechanism.digest)
    return Credential(salt, shape.iterations, wrong, wrong)


class ScramExchange:
    """One login, from the server's side."""

    def __init__(
        self,
        mechanism: Mechanism,
        find: Callable[[str], Credential | None],
        nonce: str,
        secret: bytes,
        shapes: Collection[Shape] = (),
    ) -> None:
        """`secret` is the cluster's; with it what a user that does not exist is shown is made up, as one of `shapes`."""
        self._mechanism = mechanism
        self._find = find
        self._server_nonce = nonce
        self._secret = secret
        self._shapes = shapes or (_OUR_SHAPE,)
        self.user = ""
        """As whom the client tries to log in; not proven until the last step."""
        self._nonce = b""
        self._credential: Credential | None = None
        self._exists = False
        self._said = b""
        """The messages so far, without their envelopes: both sides sign them."""

    def respond(self, token: bytes) -> tuple[bytes, str | None]:
        """The answer to the client's message, and its name once it has proven it."""
        if len(token) > _LARGEST_TOKEN:
            raise SaslAuthenticationFailed("the login message is too long")
        if not self._said:
            return self._first(token), None
        return self._final(token), self.user

    def claims(self, token: bytes) -> str:
        if self._said or len(token) > _LARGEST_TOKEN:
            return self.user
        bare = token.split(b",", 2)[-1]
        try:
            return _unescape(_fields(bare).get("n", b""))
        except SaslAuthenticationFailed:
            return ""

    def _first(self, token: bytes) -> bytes:
        flag, _, rest = token.partition(b",")
        identity, _, bare = rest.partition(b",")
        if flag not in (b"n", b"y"):
            raise SaslAuthenticationFailed("channel binding is not supported")
        fields = _fields(bare)
        self.user = _unescape(fields.get("n", b""))
        client_nonce = fields.get("r", b"")
        if not self.user or not client_nonce:
            raise SaslAuthenticationFailed("the first login message names no user, or no nonce")
        if identity and _unescape(identity.removeprefix(b"a=")) != self.user:
            raise SaslAuthenticationFailed("nobody may log in in the name of another")
        found = self._find(self.user)
        self._exists = found is not None
        # Made up in any case, so that it takes as long for a user who does exist.
        invented = made_up(self._mechanism, self.user, self._secret, self._shapes)
        self._credential = found or invented
        salt, iterations = self._credential.salt, self._credential.iterations
        self._nonce = client_nonce + self._server_nonce.encode()
        answer = b"r=%s,s=%s,i=%d" % (self._nonce, base64.b64encode(salt), iterations)
        self._said = bare + b"," + answer
        return answer

    def _final(self, token: bytes) -> bytes:
        without_proof, _, proof = token.rpartition(b",p=")
        fields = _fields(without_proof)
        if fields.get("c") != _WITHOUT_CHANNEL_BINDING or fields.get("r") != self._nonce:
            raise SaslAuthenticationFailed("the second login message does not follow the first")
        said = self._said + b"," + without_proof
        proven = self._is_proven(said, _base64(proof))
        if not self._exists or not proven:
            raise SaslAuthenticationFailed(
                f"the user or the password is wrong ({self._mechanism.sasl_name})"
            )
        assert self._credential is not None
        signature = _hmac(self._mechanism, self._credential.server_key, said)
        return b"v=" + base64.b64encode(signature)

    def _is_proven(self, said: bytes, proof: bytes) -> bool:
        assert self._credential is not None
        signature = _hmac(self._mechanism, self._credential.stored_key, said)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored = hashlib.new(self._mechanism.digest, client_key).digest()
        return hmac.compare_digest(stored, self._credential.stored_key)


class ScramClient:
    """One login, from the client's side: `first()`, then `final(challenge)`, then `check(signature)`."""

    def __init__(self, mechanism: Mechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce.encode()
        self._bare = b"n=%s,r=%s" % (_escape(user), self._nonce)
        self._expected = b""

    def first(self) -> bytes:
        return b"n,," + self._bare

    def final(self, challenge: bytes) -> bytes:
        """The proof; raises if the server does not answer what was sent."""
        fields = _fields(challenge)
        nonce, iterations = fields.get("r", b""), fields.get("i", b"")
        if not nonce.startswith(self._nonce) or not iterations.isdigit():
            raise SaslAuthenticationFailed("the server's answer does not follow the login")
        if int(iterations) < MIN_ITERATIONS:
            raise SaslAuthenticationFailed(
                f"the server asks for {int(iterations)} iterations, too few to be safe"
            )
        salted = hashlib.pbkdf2_hmac(
            self._mechanism.digest,
            self._password.encode(),
            _base64(fields.get("s", b"")),
            int(iterations),
        )
        without_proof = b"c=%s,r=%s" % (_WITHOUT_CHANNEL_BINDING, nonce)
        said = b",".join((self._bare, challenge, without_proof))
        client_key = _hmac(self._mechanism, salted, b"Client Key")
        stored_key = hashlib.new(self._mechanism.digest, client_key).digest()
        signature = _hmac(self._mechanism, stored_key, said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = _hmac(self._mechanism, salted, b"Server Key")
        self._expected = _hmac(self._mechanism, server_key, said)
        return b"%s,p=%s" % (without_proof, base64.b64encode(proof))

    def check(self, answer: bytes) -> None:
        """Raise unless the server knows the password, too."""
        if not hmac.compare_digest(_base64(_fields(answer).get("v", b"")), self._expected):
            raise SaslAuthenticationFailed("the server could not prove that it knows the password")


def _hmac(mechanism: Mechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.digest)


def _fields(message: bytes) -> dict[str, bytes]:
    fields: dict[str, bytes] = {}
    for part in message.split(b","):
        name, equals, value = part.partition(b"=")
        if equals:
            fields.setdefault(name.decode("latin-1"), value)
    return fields


def _escape(name: str) -> bytes:
    return name.replace("=", "=3D").replace(",", "=2C").encode()


def _unescape(name: bytes) -> str:
    try:
        return name.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the user's name is not UTF-8") from None


def _base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslAuthenticationFailed("a login message is not base64") from None
