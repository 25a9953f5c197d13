"""The hot path without a network: what the dispatcher takes for a request, on one core, in this process.

    python benchmarks/dispatcher.py [--rounds 10] [--only idempotent] [--profile] [--json FILE]

Requests lie in a buffer as the network would have received them, and go the way that a connection gives them: those that came
together as a run, if the broker takes them so, else one by one.  Told is processor time, the best of all rounds, so a busy machine
disturbs little.  With --profile it says where the time goes.  To compare two trees: PYTHONPATH=other/src, in turn.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "broker"))

from hot_path import PEER, HotPath, batch, fetch_request, produce_request

from tidelog.protocol.frame import encode_request

READS = 60
"""How many reads of a connection make a round."""

Reads = list[memoryview]


def produces(
    together: int, *, acks: int = 1, size: int = 20, producer: bool = False
) -> Callable[[int], Reads]:
    """Reads of so many requests of one record each."""

    def make(turn: int) -> Reads:
        numbers = iter(range(turn * READS * together, (turn + 1) * READS * together))
        return [joined(requests(next(numbers) for _ in range(together))) for _ in range(READS)]

    def requests(numbers: Iterator[int]) -> Iterator[bytes]:
        for number in numbers:
            own = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
            made = batch(b"x" * size, **(own if producer else {}))
            yield bytes(encode_request(produce_request(made, acks=acks), 9, 1, "c"))

    def joined(frames: Iterator[bytes]) -> memoryview:
        return memoryview(bytearray(b"".join(frames)))

    return make


def fetches(max_bytes: int) -> Callable[[int], Reads]:
    """Reads of one request each, from all over the log."""

    def make(turn: int) -> Reads:
        asked = [
            fetch_request(at * 7919 % STOCK, partition_max_bytes=max_bytes, max_bytes=max_bytes)
            for at in range(turn, turn + READS)
        ]
        return [memoryview(bytearray(encode_request(each, 12, 1, "c"))) for each in asked]

    return make


STOCK = 3000
CASES: dict[str, tuple[int, Callable[[int], Reads]]] = {
    "produce, alone": (1, produces(1)),
    "produce, 5 together": (5, produces(5)),
    "produce, 100 together": (100, produces(100)),
    "produce, 100 together, no acks": (100, produces(100, acks=0)),
    "produce idempotent, alone": (1, produces(1, producer=True)),
    "produce idempotent, 5 together": (5, produces(5, producer=True)),
    "produce 64 KB, alone": (1, produces(1, size=65_000)),
    "fetch a batch of 100 bytes": (1, fetches(200)),
    "fetch 64 KB in small batches": (1, fetches(1 << 16)),
}


def served(hot: HotPath, buffer: memoryview) -> None:
    """As `network/connection.py` does it."""
    pos, end = 0, len(buffer)
    runs = True
    while pos < end:
        (size,) = struct.unpack_from(">i", buffer, pos)
        if runs and pos + 4 + size < end:
            stop, _ = hot.dispatcher.serve_run(PEER, buffer, pos, end)
            if stop != pos:
                pos = stop
                continue
            runs = False
        hot.dispatcher.serve(PEER, buffer[pos + 4 : pos + 4 + size])
        pos += 4 + size


async def measure(name: str, rounds: int, profile: cProfile.Profile | None) -> float:
    """Microseconds of a request."""
    together, make = CASES[name]
    best = float("inf")
    with tempfile.TemporaryDirectory(prefix="tidelog-dispatcher-") as directory:
        hot = HotPath(Path(directory))
        for _ in range(STOCK if name.startswith("fetch") else 1):
            hot.serve(produce_request(batch(b"x" * 20), acks=1), 9)
        for turn in range(rounds):
            reads = make(turn)
            if profile:
                profile.enable()
            began = time.process_time()
            for each in reads:
                served(hot, each)
            took = time.process_time() - began
            if profile:
                profile.disable()
            best = min(best, took / len(reads) / together * 1e6)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="cases that have this in their name")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    for name in CASES:
        if options.only in name:
            profile = cProfile.Profile() if options.profile else None
            found[name] = round(asyncio.run(measure(name, options.rounds, profile)), 2)
            print(f"{name:34} {found[name]:8.2f} us a request", flush=True)
            if profile:
                pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
