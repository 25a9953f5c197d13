"""The process that compacts: reads jobs from its standard input, answers on its standard output.

The cleaner starts it when first needed (`cleaner_process`) and keeps it.  It imports little, runs at a lower priority
than the broker, and ends when its standard input does: with the broker, however that ends.

A message is a length and a pickle; both ends are tidelog, and nobody else holds the pipes.

    → Begin(job, bytes a second)     ← Mapped
    → group of base offsets          ← Cleaned          and so on, until the next Begin
    anything that fails              ← Failed           and the pass is over
"""

import os
import pickle
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple

from tidelog.errors import TidelogError
from tidelog.storage.compaction_pass import CleaningPass, Job
from tidelog.storage.files import Files, LocalFiles

LENGTH = struct.Struct(">I")
_NICENESS = 5
_BURST_SECONDS = 0.3  # as long as Kafka's Throttler lets pass between two checks


class Begin(NamedTuple):
    job: Job
    bytes_per_second: float


class Failed(NamedTuple):
    """Why a pass ended early."""

    reason: str
    corrupt: bool
    """The log itself is at fault; another attempt would fail in the same way."""


class Throttle:
    """Holds the average of what is spent below a rate, by waiting."""

    def __init__(
        self, per_second: float, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._paid_until = monotonic()

    def spend(self, amount: int) -> None:
        now = self._monotonic()
        self._paid_until = max(self._paid_until, now - _BURST_SECONDS) + amount / self._per_second
        if self._paid_until > now:
            self._sleep(self._paid_until - now)


class Work:
    """Answers the messages one after the other; holds the pass under way."""

    def __init__(
        self, files: Files, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._files = files
        self._monotonic = monotonic
        self._sleep = sleep
        self._pass: CleaningPass | None = None

    def answer(self, message: Any) -> Any:
        try:
            if isinstance(message, Begin):
                self._end()
                throttle = Throttle(message.bytes_per_second, self._monotonic, self._sleep)
                self._pass = CleaningPass(message.job, self._files, throttle.spend)
                return self._pass.map_keys()
            assert self._pass is not None, "a group before its job"
            return self._pass.clean(message)
        except TidelogError as error:
            self._end()
            return Failed(str(error), corrupt=True)
        except OSError as error:
            self._end()
            return Failed(str(error), corrupt=False)
        except Exception:  # noqa: BLE001 - the root of the process's work; the cleaner logs it
            self._end()
            return Failed(traceback.format_exc(), corrupt=False)

    def _end(self) -> None:
        if self._pass is not None:
            self._pass.close()
            self._pass = None


def main() -> None:
    os.nice(_NICENESS)
    inbox: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, inbox), daemon=True).start()
    work = Work(LocalFiles(), time.monotonic, time.sleep)
    out = sys.stdout.buffer
    while True:
        data = pickle.dumps(work.answer(inbox.get()))
        out.write(LENGTH.pack(len(data)) + data)
        out.flush()


def _receive(source: BinaryIO, inbox: "SimpleQueue[Any]") -> None:
    """Hand messages over; at the end of the stream the process ends at once, in the middle of whatever it does."""
    while len(prefix := source.read(LENGTH.size)) == LENGTH.size:
        inbox.put(pickle.loads(source.read(LENGTH.unpack(prefix)[0])))
    os._exit(0)
