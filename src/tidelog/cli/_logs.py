"""What a server writes to its log: lines for people, or an object a line for machines (`--log-format`)."""

import argparse
import logging
import sys

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("human", "json")

_HUMAN = "%(asctime)s %(levelname)-7s %(message)s"


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
        handler.setFormatter(logging.Formatter(_HUMAN))
    logging.basicConfig(level=arguments.log_level.upper(), handlers=[handler])
