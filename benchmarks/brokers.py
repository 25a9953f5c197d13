"""Two brokers beside one: what a second core gives for a load over many partitions.

    python benchmarks/brokers.py [--seconds 3] [--partitions 50] [--rounds 3] [--json results.json]

Every broker leads as many partitions, each with one replica, and has a load generator of its own.  One broker is one core, so two
can do twice as much if they do not hinder each other.  `wall` is the ratio of requests a second as the clock has it: with two cores
the load generators take theirs from the brokers, and it says little.  `capacity` is the ratio of what the brokers would do
with a core each: requests for a second of a broker's processor time, summed.  The median round counts.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker import Wire, cpu_seconds, load

from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.testing.local_cluster import LocalCluster

# name: (connections, requests in flight on each, bytes of a batch)
RUNS = {
    "tiny, pipelined": (4, 50, 100),
    "16 KB": (4, 8, 16_384),
    "64 KB": (4, 5, 65_536),
}


def create(cluster: LocalCluster, partitions: int) -> None:
    """A topic for each broker, all of it there."""
    topics = [
        CreatableTopic(
            name=f"t{number}",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=[number])
                for index in range(partitions)
            ],
        )
        for number in range(len(cluster.brokers))
    ]
    wire = Wire(cluster.brokers[0].port)
    answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
    assert not any(each.error_code for each in answer.topics), answer


def measured(
    cluster: LocalCluster, run: str, partitions: int, seconds: float
) -> tuple[float, float]:
    """Requests a second, and requests for a second of each broker's processor time, summed."""
    connections, in_flight, size = RUNS[run]
    brokers = cluster.brokers
    before, start = [cpu_seconds(each.pid) for each in brokers], time.monotonic()
    with ThreadPoolExecutor(len(brokers)) as threads:
        running = [
            threads.submit(
                load, "produce", each.host, each.port, f"t{number}", partitions,
                connections, in_flight, size, seconds, 1,
            )
            for number, each in enumerate(brokers)
        ]  # fmt: skip
        rates = [each.result()["requests_per_s"] for each in running]
    took = time.monotonic() - start
    used = [cpu_seconds(each.pid) - was for each, was in zip(brokers, before, strict=True)]
    capacity = sum(rate * took / cpu for rate, cpu in zip(rates, used, strict=True))
    return sum(rates), capacity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--partitions", type=int, default=50, help="of each broker")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        clusters = []
        for size in (1, 2):
            cluster = stack.enter_context(LocalCluster(size, Path(directory, str(size))))
            create(cluster, options.partitions)
            clusters.append(cluster)
        for run in RUNS:
            rounds = []
            for _ in range(options.rounds):
                one, two = (
                    measured(each, run, options.partitions, options.seconds) for each in clusters
                )
                rounds.append((two[0] / one[0], two[1] / one[1], one[1]))
            wall, capacity, alone = (statistics.median(each) for each in zip(*rounds, strict=True))
            results[run] = {
                "one_broker_requests_per_cpu_s": round(alone),
                "wall": round(wall, 2),
                "capacity": round(capacity, 2),
            }
            figures = "  ".join(f"{key} {value:,}" for key, value in results[run].items())
            print(f"{run:20}", figures, flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
