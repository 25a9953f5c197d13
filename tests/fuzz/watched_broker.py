"""`tidelog serve`, whose watchdog measures processor time: what a busy machine takes from the broker does not count.

Every turn that it counts is a line in the file that TIDELOG_HELD names.
"""

import os
import sys
import time
from collections.abc import Callable

import tidelog.broker.broker
from tidelog.cli.main import main
from tidelog.network.watchdog import Watchdog


class Watching(Watchdog):
    """Writes down what it notes."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(time.thread_time)

    def note(self, seconds: float, what: str) -> None:
        with open(os.environ["TIDELOG_HELD"], "a") as lines:
            lines.write(f"{seconds:.3f} {what}\n")


tidelog.broker.broker.Watchdog = Watching  # type: ignore[misc]
sys.exit(main())
