"""A broker for hostile bytes: after the tests it must still run, with nothing unexpected in its log."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tidelog.testing.local_broker import LocalBroker
from tidelog.testing.local_cluster import LocalCluster

sys.path.insert(0, str(Path(__file__).parent))  # for `wire` and `instances`

from hostile_table import WatchedBroker

MOST_HELD_S = 0.25
"""Of processor time, in one turn of the loop."""

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "num.partitions": "1",
    "log.index.size.max.bytes": "4096",
}
RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Until the requests have made rules.
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with WatchedBroker(settings=SETTINGS) as broker:
        yield broker
        check([broker])


@pytest.fixture(scope="module", params=["open", "rules", "cluster"])
def brokers(request: pytest.FixtureRequest) -> Iterator[list[LocalBroker]]:
    """One broker, one with access rules, and two of a cluster that hand requests on to each other."""
    if request.param == "cluster":
        with LocalCluster(2, settings=SETTINGS) as cluster:
            yield cluster.brokers
            check(cluster.brokers)
    else:
        with WatchedBroker(settings=SETTINGS | (RULES if request.param == "rules" else {})) as one:
            yield [one]
            check([one])


def check(brokers: Sequence[LocalBroker]) -> None:
    """They still run, nothing unexpected is in their logs, and nothing held them for long."""
    for each in brokers:
        assert each.process is not None
        assert each.process.poll() is None, "the broker has ended:\n" + each.log()[-5000:]
        found = tracebacks(each.log())
        assert not found, f"{len(found)} kinds of traceback:\n\n" + "\n\n".join(found)
        if isinstance(each, WatchedBroker):
            long = [line for line in each.held() if float(line.split()[0]) > MOST_HELD_S]
            assert not long, "\n".join(long)


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
