"""What happened in a run, in order: printed when the run fails, and the whole of it with --trace."""

import logging
import sys
from collections.abc import Callable
from typing import NamedTuple

from .loop import CURRENT


class Happening(NamedTuple):
    time: float
    who: str
    what: str
    detail: bool
    """Worth telling only when everything is told."""


class Violation(Exception):
    """The product broke a promise, or did something that nobody caught."""


class Story:
    """Collects what nodes, clients and the nemesis do."""

    def __init__(self, now: Callable[[], float], *, show: bool = False) -> None:
        self.happenings: list[Happening] = []
        self.violations: list[str] = []
        self._now = now
        self._show = show

    def tell(self, who: str, what: str, *, detail: bool = False) -> None:
        happening = Happening(self._now(), who, what, detail)
        self.happenings.append(happening)
        if self._show:
            sys.stdout.write(_line(happening) + "\n")

    def violation(self, what: str) -> None:
        """Note a broken promise; the run goes on to its end, so that the whole damage is seen."""
        if what not in self.violations:
            self.violations.append(what)
            self.tell("checker", f"VIOLATION: {what}")

    def text(self, *, details: bool = False) -> str:
        return "\n".join(_line(each) for each in self.happenings if details or not each.detail)


class LogsToStory(logging.Handler):
    """Takes the log lines of simulated processes into the story; an error with a traceback breaks a promise."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.INFO)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        process = CURRENT.get()
        who = process.name if process is not None else "simulation"
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self._story.tell(who, text, detail=record.levelno < logging.WARNING)
        if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
            error = record.exc_info[1]
            self._story.violation(
                f"{who}: unexpected {type(error).__name__}: {error} ({record.getMessage()})"
            )


def _line(each: Happening) -> str:
    return f"{each.time:10.4f}  {each.who:<12} {each.what}"
