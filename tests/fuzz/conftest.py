"""A broker for hostile bytes: after the tests it must still run, with nothing unexpected in its log."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.testing.local_broker import LocalBroker

sys.path.insert(0, str(Path(__file__).parent))  # for `wire` and `instances`

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "num.partitions": "1",
    "log.index.size.max.bytes": "4096",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS) as broker:
        yield broker
        assert broker.process is not None
        assert broker.process.poll() is None, "the broker has ended:\n" + broker.log()[-5000:]
        found = tracebacks(broker.log())
        assert not found, f"{len(found)} kinds of traceback:\n\n" + "\n\n".join(found)


def tracebacks(log: str) -> list[str]:
    """The different tracebacks in a log, each once, with the line before it."""
    found: dict[str, str] = {}
    block: list[str] = []
    before = ""
    for line in [*log.splitlines(), ""]:
        if line.startswith("Traceback"):
            block = [before, line]
        elif block:
            block.append(line)
            if line and not line.startswith(" "):
                found.setdefault("\n".join(block[-3:-1]), "\n".join(block))
                block = []
        before = line
    return list(found.values())
