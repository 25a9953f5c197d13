"""The levels of this broker's loggers, read and changed while it runs (Kafka's resource type BROKER_LOGGER, KIP-412).

A level is of the process: it is not written down, and a restart forgets it.  Names are those of our modules; a name stands for
everything below it, `tidelog.cluster` for all of that layer.  Levels have Kafka's names.
"""

import logging
from collections.abc import Mapping, Sequence

from tidelog.errors import InvalidConfig, InvalidRequest

ROOT = "root"
_OURS = "tidelog"

_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
}
_NAMES = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}

log = logging.getLogger(__name__)


def levels() -> dict[str, str]:
    """The level in force of every logger that there is, by name."""
    known = [each for each in logging.root.manager.loggerDict if _is_ours(each)]
    names = sorted({_OURS, *known})
    return {each: level_of(each) for each in [ROOT, *names]}


def level_of(name: str) -> str:
    """As Kafka calls it."""
    level = _logger(name).getEffectiveLevel()
    return _NAMES[max(level // 10 * 10, logging.DEBUG)]


def check(changes: Mapping[str, str | None]) -> None:
    """Raise for what cannot be set."""
    for name, level in changes.items():
        if not _is_ours(name) and name != ROOT:
            raise InvalidConfig(f"there is no logger {name}; ours begin with {_OURS}")
        if level is None and name == ROOT:
            raise InvalidRequest("the level of the root logger cannot be taken away, only changed")
        if level is not None and level.upper() not in _LEVELS:
            raise InvalidConfig(f"{level} is not a level; there are {', '.join(_NAMES.values())}")


def change(changes: Mapping[str, str | None]) -> None:
    """Set levels; None lets a logger have that of the one above it."""
    check(changes)
    for name, level in changes.items():
        _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level.upper()])
        log.warning("the logger %s is at %s now", name, level_of(name))


def synonyms(name: str) -> Sequence[tuple[str, str]]:
    """(logger, level) of those whose level would hold, the nearest first."""
    found = []
    while name:
        if logging.getLogger(name).level:
            found.append((name, level_of(name)))
        name = name.rpartition(".")[0]
    return [*found, (ROOT, level_of(ROOT))]


def _is_ours(name: str) -> bool:
    return name == _OURS or name.startswith(f"{_OURS}.")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
