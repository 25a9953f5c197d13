"""The metadata log in ZooKeeper: fenced by the version of the controller's node, numbered by a counter.

    /controller            who leads; its version changes with every election and is the fence
    /log                   number of the newest entry
    /log/0000000042        an entry: a head, and the data or where its parts are
    /parts/0000000042-…    parts of an entry that is too large for one node
    /snapshot              number of the newest snapshot, and where its parts are
    /snapshots/…           parts of snapshots
    /cut                   number up to which entries have been deleted

An append is one transaction: check `/controller`, advance `/log`, create the entry.  Its head carries a token, so that
an append whose answer was lost is found, or known not to have happened.  What is too large for one node is
written in parts before, each under the fence, and becomes visible with the transaction that names them.  Parts of what
never became visible are removed with the next snapshot.

Nothing here lists `/log`: entries are read by number, so a long history costs no more than a short one.
"""

import asyncio
import json
import secrets
from typing import Any, NamedTuple

from kazoo.exceptions import NodeExistsError, NoNodeError

from tidelog.metastore.contract import (
    Compacted,
    Controller,
    Entry,
    Fenced,
    MetastoreError,
    Snapshot,
)
from tidelog.metastore.zookeeper.ensemble import (
    Check,
    Create,
    Delete,
    Ensemble,
    Refused,
    Step,
    Unanswered,
    Write,
)

PART_BYTES = 512 * 1024
"""ZooKeeper refuses requests of one megabyte (jute.maxbuffer); this leaves room for a lower setting."""
LARGEST_BYTES = 64 * 1024 * 1024
_DELETES = 500
"""How many nodes one transaction removes."""

_TOKEN_BYTES = 8


class _End(NamedTuple):
    number: int
    version: int


class Log:
    """The log under `root`, over the connection of one member."""

    def __init__(self, ensemble: Ensemble, root: str) -> None:
        self._ensemble = ensemble
        self._root = root
        self._writing = asyncio.Lock()
        self._fence_of: dict[int, int] = {}
        """Version of the controller's node by epoch.  Invariant: an epoch has one version, for ever."""
        self._end: _End | None = None
        """Where the next append goes, if nobody else has appended since."""

    def nodes(self) -> dict[str, bytes]:
        """What must be there before anything else, and what it begins with."""
        return {
            "/controller": b'{"epoch": 0, "member": -1, "token": ""}',
            "/log": b"0",
            "/cut": b"0",
            "/parts": b"",
            "/snapshot": b"",
            "/snapshots": b"",
        }

    # Reading

    async def end(self, by: float) -> int:
        return int((await self._ensemble.get(f"{self._root}/log", by))[0])

    async def read(self, after: int, limit: int) -> list[Entry]:
        by = self._ensemble.deadline()
        numbers = range(after + 1, min(after + limit, await self.end(by)) + 1)
        found = await asyncio.gather(*(self._load_entry(number, by) for number in numbers))
        entries: list[Entry] = []
        for number, data in zip(numbers, found, strict=True):
            if data is None:
                # Cut while we were reading: what came before the hole is still in order.
                break
            entries.append(Entry(number, data))
        if numbers and not entries:
            raise Compacted(f"the log no longer has entry {numbers[0]}")
        return entries

    async def snapshot(self) -> Snapshot | None:
        by = self._ensemble.deadline()
        while True:
            pointer, version = await self._ensemble.get(f"{self._root}/snapshot", by)
            if not pointer:
                return None
            place = json.loads(pointer)
            names = [
                f"{self._root}/snapshots/{place['name']}-{n:05d}" for n in range(place["parts"])
            ]
            data = await self._load_parts(names, by)
            if data is not None:
                return Snapshot(place["number"], data)
            if (await self._ensemble.get(f"{self._root}/snapshot", by))[1] == version:
                raise MetastoreError(f"the snapshot {place['name']} in ZooKeeper lacks a part")

    async def _load_entry(self, number: int, by: float) -> bytes | None:
        node = await self._ensemble.maybe_get(self._entry(number), by)
        if node is None:
            return None
        token, parts, data = _unpack(node)
        if parts == 0:
            return data
        return await self._load_parts([self._part(number, token, n) for n in range(parts)], by)

    async def _load_parts(self, paths: list[str], by: float) -> bytes | None:
        parts = await asyncio.gather(*(self._ensemble.maybe_get(path, by) for path in paths))
        whole = [part for part in parts if part is not None]
        return b"".join(whole) if len(whole) == len(paths) else None

    # Appending

    async def append(self, epoch: int, data: bytes) -> int:
        _check_size(data)
        async with self._writing:
            by = self._ensemble.deadline()
            fence = await self._fence(epoch, by)
            while True:
                end = self._end or await self._read_end(by)
                number, token = end.number + 1, secrets.token_bytes(_TOKEN_BYTES)
                head = await self._prepare(number, token, data, fence, epoch, by)
                steps: list[Step] = [
                    Check(f"{self._root}/controller", fence),
                    Write(f"{self._root}/log", b"%d" % number, end.version),
                    Create(self._entry(number), head),
                ]
                self._end = None
                try:
                    outcome = await self._ensemble.commit(steps, by)
                except Unanswered:
                    if await self._is_ours(number, token, by):
                        return number
                    # It has not happened, and cannot any more.
                    fence = await self._fence(epoch, by, fresh=True)
                    continue
                if not isinstance(outcome, Refused):
                    self._end = _End(number, outcome[1].version)
                    return number
                await self._check_refusal(outcome, epoch, by)

    async def _is_ours(self, number: int, token: bytes, by: float) -> bool:
        """Whether the entry of an append that was not answered is there."""
        await self._ensemble.sync(f"{self._root}/log", by)
        node = await self._ensemble.maybe_get(self._entry(number), by)
        if node is not None:
            return _unpack(node)[0] == token
        if await self.end(by) >= number:
            raise MetastoreError(
                f"entry {number} was cut before it was known whether our append had made it"
            )
        return False

    async def _read_end(self, by: float) -> _End:
        await self._ensemble.sync(f"{self._root}/log", by)
        data, version = await self._ensemble.get(f"{self._root}/log", by)
        return _End(int(data), version)

    async def _prepare(
        self, number: int, token: bytes, data: bytes, fence: int, epoch: int, by: float
    ) -> bytes:
        """The entry's node; writes the parts first when the data does not fit into it."""
        if len(data) <= PART_BYTES:
            return _pack(token, 0, data)
        pieces = _split(data)
        for index, piece in enumerate(pieces):
            await self._write_part(self._part(number, token, index), piece, fence, epoch, by)
        return _pack(token, len(pieces), b"")

    async def _write_part(self, path: str, data: bytes, fence: int, epoch: int, by: float) -> None:
        steps: list[Step] = [Check(f"{self._root}/controller", fence), Create(path, data)]
        outcome = await self._commit_again(steps, epoch, by)
        # There already: an earlier attempt was not answered.  Nobody else uses that name.
        assert not isinstance(outcome, Refused) or isinstance(outcome.reason, NodeExistsError)

    # Snapshots

    async def save_snapshot(self, epoch: int, snapshot: Snapshot) -> None:
        _check_size(snapshot.data)
        async with self._writing:
            by = self._ensemble.deadline()
            fence = await self._fence(epoch, by)
            name, pieces = secrets.token_hex(_TOKEN_BYTES), _split(snapshot.data)
            for index, piece in enumerate(pieces):
                path = f"{self._root}/snapshots/{name}-{index:05d}"
                await self._write_part(path, piece, fence, epoch, by)
            pointer = {"number": snapshot.number, "name": name, "parts": len(pieces)}
            await self._commit_again(
                [
                    Check(f"{self._root}/controller", fence),
                    Write(f"{self._root}/snapshot", json.dumps(pointer).encode()),
                ],
                epoch,
                by,
            )
            await self._cut(snapshot.number, fence, epoch)
            await self._sweep(snapshot.number, name, fence, epoch)

    async def _cut(self, upto: int, fence: int, epoch: int) -> None:
        """Delete the entries that the snapshot stands for, from the oldest on."""
        while True:
            by = self._ensemble.deadline()
            done, version = await self._ensemble.get(f"{self._root}/cut", by)
            first, last = int(done) + 1, min(int(done) + _DELETES, upto)
            if first > last:
                return
            steps: list[Step] = [
                Check(f"{self._root}/controller", fence),
                Write(f"{self._root}/cut", b"%d" % last, version),
                *(Delete(self._entry(number)) for number in range(first, last + 1)),
            ]
            # Refused after an attempt that was not answered: then /cut has moved on, and so do we.
            outcome = await self._commit_again(steps, epoch, by)
            if isinstance(outcome, Refused):
                await self._check_refusal(outcome, epoch, by)

    async def _sweep(self, upto: int, name: str, fence: int, epoch: int) -> None:
        """Remove parts that nothing refers to any more."""
        by = self._ensemble.deadline()
        parts = await self._ensemble.children(f"{self._root}/parts", by)
        snapshots = await self._ensemble.children(f"{self._root}/snapshots", by)
        paths = [f"{self._root}/parts/{each}" for each in parts if int(each.split("-")[0]) <= upto]
        paths += [
            f"{self._root}/snapshots/{each}" for each in snapshots if not each.startswith(name)
        ]
        for begin in range(0, len(paths), _DELETES):
            steps: list[Step] = [Check(f"{self._root}/controller", fence)]
            steps += [Delete(path) for path in paths[begin : begin + _DELETES]]
            await self._commit_again(steps, epoch, self._ensemble.deadline())

    async def _commit_again(self, steps: list[Step], epoch: int, by: float) -> list[Any] | Refused:
        """Commit what may be tried twice.  The first step is the fence."""
        while True:
            try:
                outcome = await self._ensemble.commit(steps, by)
            except Unanswered:
                continue
            if isinstance(outcome, Refused) and outcome.step == 0:
                await self._check_refusal(outcome, epoch, by)
            return outcome

    # The fence

    async def controller(self, by: float) -> tuple[Controller, str, int]:
        """Who was last elected, the token of its session, and the version of its node."""
        data, version = await self._ensemble.get(f"{self._root}/controller", by)
        return *decode_controller(data), version

    async def _fence(self, epoch: int, by: float, *, fresh: bool = False) -> int:
        if epoch not in self._fence_of or fresh:
            # Elections go over another connection, perhaps to a server that is ahead of ours.
            await self._ensemble.sync(f"{self._root}/controller", by)
            controller, _, version = await self.controller(by)
            if controller.epoch != epoch:
                raise _fenced(epoch, controller.epoch)
            self._fence_of = {epoch: version}
        return self._fence_of[epoch]

    async def _check_refusal(self, refused: Refused, epoch: int, by: float) -> None:
        if refused.step == 0:
            await self._fence(epoch, by, fresh=True)
        if isinstance(refused.reason, NoNodeError):
            raise MetastoreError(f"a node below {self._root or '/'} in ZooKeeper has been removed")

    def _entry(self, number: int) -> str:
        return f"{self._root}/log/{number:010d}"

    def _part(self, number: int, token: bytes, index: int) -> str:
        return f"{self._root}/parts/{number:010d}-{token.hex()}-{index:05d}"


def encode_controller(controller: Controller, token: str) -> bytes:
    return json.dumps(
        {"epoch": controller.epoch, "member": controller.member, "token": token}
    ).encode()


def decode_controller(data: bytes) -> tuple[Controller, str]:
    fields = json.loads(data)
    return Controller(fields["member"], fields["epoch"]), fields["token"]


def _fenced(epoch: int, present: int) -> Fenced:
    return Fenced(f"controller epoch {epoch} is over; the present one is {present}")


def _check_size(data: bytes) -> None:
    if len(data) > LARGEST_BYTES:
        raise MetastoreError(
            f"{len(data)} bytes are too many for the metastore; the largest entry or snapshot has {LARGEST_BYTES}"
        )


def _split(data: bytes) -> list[bytes]:
    return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)] or [b""]


# An entry's node: 8 bytes token, 4 bytes count of parts (0: the data follows), data.


def _pack(token: bytes, parts: int, data: bytes) -> bytes:
    return token + parts.to_bytes(4) + data


def _unpack(node: bytes) -> tuple[bytes, int, bytes]:
    return node[:_TOKEN_BYTES], int.from_bytes(node[_TOKEN_BYTES : _TOKEN_BYTES + 4]), node[12:]
