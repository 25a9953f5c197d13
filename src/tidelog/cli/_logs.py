"""What a server writes to its log: lines for people, or an object a line for machines (`--log-format`)."""

import argparse
import logging
import sys

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("human", "json")

_HUMAN = "%(asctime)s %(levelname)-7s %(message)s"

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    10: "\\n", 13: "\\r", 9: "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029",
}  # fmt: skip


class LineFormatter(logging.Formatter):
    """A message is one line, whatever is in it: names come from strangers, and must not look like lines of ours.

    A terminal obeys control characters too.  Tracebacks keep their lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_CONTROLS)


def add_options(parser: argparse.ArgumentParser, level: str) -> None:
    add = parser.add_argument
    add("--log-level", metavar="LEVEL", default=level, choices=LEVELS, help=", ".join(LEVELS))
    add(
        "--log-format",
        metavar="FORMAT",
        default=FORMATS[0],
        choices=FORMATS,
        help=", ".join(FORMATS),
    )


def set_up(arguments: argparse.Namespace, **always: object) -> None:
    """Log to standard error as the options say; `always` is part of every JSON object."""
    handler = logging.StreamHandler(sys.stderr)
    if arguments.log_format == "json":
        from tidelog.cli._json_logs import JsonFormatter  # a start must be quick

        handler.setFormatter(JsonFormatter(**always))
    else:
        handler.setFormatter(LineFormatter(_HUMAN))
    logging.basicConfig(level=arguments.log_level.upper(), handlers=[handler])
