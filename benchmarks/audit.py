"""What the audit costs a producer: the same records with it and without, in turn, by the process's own processor time.

    python benchmarks/audit.py [--records 50000] [--size 200] [--rounds 40]

One producer for each way stays open; bursts of so many records come in random order, so that a busy moment of the machine meets all,
and the median burst of each counts.  Counts are published every second, ten times as often as by default.
"""

import argparse
import random
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack

from tidelog import Producer
from tidelog.audit.producing import ProducerAudit
from tidelog.testing.local_broker import LocalBroker

WAYS: dict[str, Callable[[], ProducerAudit | bool]] = {
    "without": lambda: False,
    "counting": lambda: ProducerAudit(interval_s=1.0, stamp=False),
    "counting and stamping": lambda: ProducerAudit(interval_s=1.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    value = b"x" * given.size
    cpu: dict[str, list[float]] = {name: [] for name in WAYS}
    wall: dict[str, list[float]] = {name: [] for name in WAYS}
    with LocalBroker() as broker, ExitStack() as stack:
        producers = {
            name: stack.enter_context(Producer(bootstrap_servers=broker.bootstrap, audit=audit()))
            for name, audit in WAYS.items()
        }
        for number in range(given.rounds + 2):
            for name, producer in random.sample(list(producers.items()), len(producers)):
                began, used = time.monotonic(), _cpu_s()
                send = producer.send
                for _ in range(given.records):
                    send("records", value)
                producer.flush()
                if number >= 2:  # the first rounds are for warming up
                    cpu[name].append(_cpu_s() - used)
                    wall[name].append(time.monotonic() - began)
    plain = statistics.median(cpu["without"])
    for name in WAYS:
        median = statistics.median(cpu[name])
        rate = given.records / statistics.median(wall[name])
        print(
            f"{name:24}{rate:12,.0f} records/s {median / given.records * 1e6:7.3f} us CPU a record "
            f"{median / plain - 1:+7.1%}"
        )


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
