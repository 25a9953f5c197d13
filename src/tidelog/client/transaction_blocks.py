"""`with producer.transaction():` — commits when the block ends well, aborts when it does not.

What the block raised is what the caller sees; if the abort fails as well, a note on it says so.  A commit that
fails with `TransactionFailed` has been aborted, and the work can be tried again; so has one that was cancelled, or ended by
Ctrl-C, unless its end was on its way already.
"""

import asyncio
from types import TracebackType
from typing import Protocol

from tidelog.errors import TidelogError, TransactionFailed

_LAST_ABORT_S = 2.0
"""How long Ctrl-C may be held up by an abort; the coordinator does it later if it is not done by then."""


class Transactional(Protocol):
    """The part of a blocking producer that a block needs."""

    def begin_transaction(self) -> None: ...

    def commit_transaction(self) -> None: ...

    def abort_transaction(self, timeout: float | None = None) -> None: ...


class AsyncTransactional(Protocol):
    """The same of an async producer."""

    async def begin_transaction(self) -> None: ...

    async def commit_transaction(self) -> None: ...

    async def abort_transaction(self) -> None: ...


class TransactionBlock:
    """One transaction of a blocking producer."""

    def __init__(self, producer: Transactional) -> None:
        self._producer = producer

    def __enter__(self) -> None:
        self._producer.begin_transaction()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            self._producer.commit_transaction()
        except (TransactionFailed, KeyboardInterrupt) as failure:
            self._abort(failure)
            raise

    def _abort(self, reason: BaseException) -> None:
        hurry = None if isinstance(reason, Exception) else _LAST_ABORT_S
        try:
            self._producer.abort_transaction(hurry)
        except (TidelogError, TimeoutError) as error:
            _note(reason, error)


class AsyncTransactionBlock:
    """One transaction of an async producer."""

    def __init__(self, producer: AsyncTransactional) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer.begin_transaction()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            await self._producer.commit_transaction()
        except (TransactionFailed, asyncio.CancelledError) as failure:
            await self._abort(failure)
            raise

    async def _abort(self, reason: BaseException) -> None:
        try:
            await self._producer.abort_transaction()
        except TidelogError as error:
            _note(reason, error)


def _note(reason: BaseException, error: Exception) -> None:
    if error is not reason:
        reason.add_note(f"the transaction could not be aborted: {error}")
