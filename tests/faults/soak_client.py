"""Transactional producers of ours, each with its own id, in one child process of `soak.py`.

Arguments: bootstrap addresses, the prefix of the transactional ids, how many producers, how many transactions each, and a
seed.  Every transaction writes `RECORDS` values `<id>/<number>/<record>` to random partitions; every third commits its number as
an offset of the group named like the id; every seventh is aborted.  A line on the standard output says how one ended:

    <id> <number> committed|aborted|unknown <milliseconds>
"""

import asyncio
import random
import sys
import time

from tidelog import TopicPartition
from tidelog.aio import Producer
from tidelog.errors import TidelogError, TransactionFailed

TOPIC = "soak"
PARTITIONS = 12
RECORDS = 4
OFFSETS_EVERY = 3
ABORTED_EVERY = 7
PATIENCE_S = 60.0


class Worker:
    """One transactional id, and the producers that have it one after the other."""

    def __init__(self, bootstrap: str, name: str, count: int, seed: int) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._count = count
        self._random = random.Random(seed)
        self._producer: Producer | None = None

    async def run(self) -> None:
        for number in range(self._count):
            began = time.monotonic()
            outcome = await self._one(number)
            taken_ms = (time.monotonic() - began) * 1000
            print(self._name, number, outcome, f"{taken_ms:.1f}", flush=True)
        if self._producer is not None:
            await self._producer.close()

    async def _one(self, number: int) -> str:
        """How the transaction ended."""
        committing = False
        try:
            producer = await self._begun()
            for record in range(RECORDS):
                value = f"{self._name}/{number}/{record}".encode()
                partition = self._random.randrange(PARTITIONS)
                await producer.send(TOPIC, value, partition=partition)
            if number % OFFSETS_EVERY == 0:
                offsets = {TopicPartition(TOPIC, 0): number + 1}
                await producer.send_offsets(offsets, self._name)
            if number % ABORTED_EVERY == 0:
                await producer.flush()
                await producer.abort_transaction()
                return "aborted"
            committing = True
            await producer.commit_transaction()
            return "committed"
        except TransactionFailed:
            # It was never asked to be committed, or that was refused: it cannot be.
            await self._replace()
            return "aborted"
        except TidelogError as error:
            print(self._name, number, "failed", repr(error), file=sys.stderr, flush=True)
            await self._replace()
            return "unknown" if committing else "aborted"

    async def _begun(self) -> Producer:
        """A producer with an open transaction; a new one, if there is none, ends what the last has left."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self._producer is None:
                    self._producer = Producer(
                        bootstrap_servers=self._bootstrap,
                        transactional_id=self._name,
                        linger_ms=0,
                        retry_backoff_ms=20,
                        retry_backoff_max_ms=200,
                    )
                await self._producer.begin_transaction()
                return self._producer
            except TidelogError:
                await self._replace()
                if time.monotonic() > deadline:
                    raise

    async def _replace(self) -> None:
        if self._producer is not None:
            old, self._producer = self._producer, None
            try:
                await old.close()
            except TidelogError as error:
                print(self._name, "closed", repr(error), file=sys.stderr, flush=True)


async def main() -> None:
    bootstrap, prefix, producers, count, seed = sys.argv[1:]
    workers = (
        Worker(bootstrap, f"{prefix}-{each}", int(count), int(seed) * 1000 + each)
        for each in range(int(producers))
    )
    await asyncio.gather(*(each.run() for each in workers))


if __name__ == "__main__":
    asyncio.run(main())
