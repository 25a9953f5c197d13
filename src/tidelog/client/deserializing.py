"""Decodes what was fetched, in the reader's thread, so that what cannot be read costs nothing but itself.

The messages before a bad one are handed out first.  Then it is its turn: `Reader.next_state` raises `BadMessage`, `judge`
says what becomes of it, and what is behind it follows.  A deserializer that cannot answer *now*, because its registry is
away, says nothing about the message: `Away`, and the same message is tried again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.decoding import Deserializer, Unfolding, decode_chunk
from tidelog.client.message import BadMessage, Message
from tidelog.errors import SettingsError

_log = logging.getLogger(__name__)

Verdict = Message | None
"""What is handed out in place of a bad message; None skips it."""

OnBad = Literal["raise", "skip"] | Callable[[BadMessage], Verdict | Awaitable[Verdict]]

Interceptor = Callable[[list[Message]], list[Message]]

_PASSING = (ConnectionError, TimeoutError)
"""What a deserializer raises when it asks somebody who is not there; other errors say so with `retriable`."""


class Away(Exception):
    """A deserializer could not do its work for a passing reason, which is the cause."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Decoder:
    """Makes messages of chunks, for all readers of one consumer."""

    def __init__(
        self,
        assignment: Assignment,
        key: Deserializer | None,
        value: Deserializer | None,
        *,
        on_bad: OnBad,
        interceptors: Sequence[Interceptor],
        counted: Callable[[int, int], None],
    ) -> None:
        if not callable(on_bad) and on_bad not in ("raise", "skip"):
            raise SettingsError(
                f"on_bad={on_bad!r} must be 'raise', 'skip' or a function of one BadMessage"
            )
        self._assignment = assignment
        self._key = key
        self._value = value
        self._on_bad = on_bad
        self._interceptors = tuple(interceptors)
        self._counted = counted

    def decode(self, state: PartitionState, unfolding: Unfolding) -> bool:
        """Decode the next chunk of the partition, or the rest of one, into `state.messages`; False if there is none."""
        epoch, rest = state.epoch, state.rest
        if rest is None:
            chunk = self._assignment.next_chunk(state)
            if chunk is None:
                return False
            try:
                # The fetcher has seen the checksums already.
                raw = decode_chunk(chunk, check_crcs=False, unfolding=unfolding)
            except BaseException:
                self._assignment.put_back(state, epoch, chunk)
                raise
            self._counted(len(raw), len(chunk.records))
            rest = raw, 0
        try:
            messages, bad = self._deserialize(*rest)
            behind = rest[1] + len(messages)
            messages = self._intercepted(messages)
        except BaseException:  # Ctrl-C: the next call tries the same messages
            with self._assignment.lock:
                if state.epoch == epoch:
                    state.rest = rest
            raise
        with self._assignment.lock:
            if state.epoch == epoch:
                state.bad = bad
                state.rest = None if bad is None else (rest[0], behind)
                state.messages = iter(messages) if messages or bad is None else None
        return True

    def judge(self, error: BadMessage) -> Verdict | Awaitable[Verdict]:
        """What becomes of a bad message, if it is not raised."""
        if self._on_bad == "skip":
            _log.warning("skipped: %s", error)
            return None
        assert callable(self._on_bad)
        return self._on_bad(error)

    @property
    def raises(self) -> bool:
        return self._on_bad == "raise"

    def _intercepted(self, messages: list[Message]) -> list[Message]:
        for interceptor in self._interceptors:
            try:
                changed = interceptor(messages)
                if changed is None:
                    raise TypeError(f"{interceptor!r} returned None, not a list of messages")
                messages = changed
            except Exception:  # noqa: BLE001 - the user's own, as in Kafka: it costs no message
                _log.exception("an interceptor failed; the messages are handed out as they were")
        return messages

    def _deserialize(
        self, raw: list[Message], start: int
    ) -> tuple[list[Message], BadMessage | Away | None]:
        """The messages from `start` on up to one that fails, and how that failed."""
        key, value = self._key, self._value
        if key is None and value is None:
            return raw, None
        done: list[Message] = []
        try:
            for place in range(start, len(raw)):
                topic, partition, offset, timestamp, its_key, its_value, headers = raw[place]
                if key is not None and its_key is not None:
                    its_key = key(its_key)
                if value is not None and its_value is not None:
                    its_value = value(its_value)
                done.append(
                    Message(topic, partition, offset, timestamp, its_key, its_value, headers)
                )
        except Exception as error:  # noqa: BLE001 - a deserializer is the user's, and may raise anything
            if _is_passing(error):
                return done, Away(error)
            return done, BadMessage(raw[start + len(done)], error)
        return done, None


def _is_passing(error: Exception) -> bool:
    return bool(getattr(error, "retriable", False)) or isinstance(error, _PASSING)
