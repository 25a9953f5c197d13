"""The log as JSON: an object a line."""

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """One object: when, how bad, who, what; the traceback where there is one."""

    def __init__(self, **always: object) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._always,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            told["stack"] = self.formatStack(record.stack_info)
        return json.dumps(told, ensure_ascii=False, default=str)
