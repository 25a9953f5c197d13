"""Throughput with three replicas as a ratio to one: three broker processes on one machine, one load generator.

    python benchmarks/replication.py [--seconds 3] [--only tiny] [--json results.json]

The load goes to one broker, which leads all partitions; with factor 3 the two others follow.  All four processes share the
machine, so on few cores factor 3 costs what three brokers and their loopback traffic cost; `cpu_us` is the time that
all brokers together were on a processor for each request.  Believe ratios, and repeat.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker import Wire, cpu_seconds, load

from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.testing.local_broker import LocalBroker

BROKERS = (1, 2, 3)
PARTITIONS = 2

# name: (connections, requests in flight on each, bytes of a batch)
RUNS = {
    "tiny, pipelined": (4, 200, 100),
    "tiny, one in flight": (8, 1, 100),
    "16 KB": (4, 8, 16_384),
    "64 KB": (4, 5, 65_536),
    "1 MB": (4, 3, 1_000_000),
}


def create(wire: Wire, topic: str, replicas: tuple[int, ...]) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
        for index in range(PARTITIONS)
    ]
    new = CreatableTopic(
        name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    answer = wire.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5)
    assert answer.topics[0].error_code == 0, answer


def measured(brokers: list[LocalBroker], topic: str, run: str, seconds: float, acks: int):
    connections, in_flight, size = RUNS[run]
    leader = brokers[0]
    before, start = [cpu_seconds(each.pid) for each in brokers], time.monotonic()
    head = ("produce", leader.host, leader.port, topic, PARTITIONS)
    result = load(*head, connections, in_flight, size, seconds, acks)
    took = time.monotonic() - start
    used = [cpu_seconds(each.pid) - was for each, was in zip(brokers, before, strict=True)]
    result["cpu_us"] = round(sum(used) / max(result["requests_per_s"] * took, 1) * 1e6, 2)
    result["leader_cpu"] = round(used[0] / took, 2)
    return result


def cluster(stack: ExitStack) -> list[LocalBroker]:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    brokers = []
    for broker_id in BROKERS:
        settings = {
            "broker.id": str(broker_id),
            "metastore": f"sqlite:{directory / 'metadata.db'}",
        }
        each = LocalBroker(directory / f"broker-{broker_id}", settings=settings)
        brokers.append(stack.enter_context(each))
    return brokers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--only", default="", help="run what has this in its name")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for run in RUNS:
        if options.only not in run:
            continue
        alone: dict[int, dict[str, float]] = {}
        for factor in (1, 3):
            for acks in (1, -1):
                with ExitStack() as stack:
                    brokers = cluster(stack)
                    create(Wire(brokers[0].port), "t", BROKERS[:factor])
                    result = measured(brokers, "t", run, options.seconds, acks)
                if factor == 1:
                    alone[acks] = result
                else:
                    ratio = result["requests_per_s"] / alone[acks]["requests_per_s"]
                    result["ratio_to_factor_1"] = round(ratio, 2)
                name = f"{run}, factor {factor}, acks={'all' if acks < 0 else acks}"
                results[name] = result
                figures = "  ".join(f"{key} {value:,}" for key, value in result.items())
                print(f"{name:40}", figures, flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
