"""Takes what was fetched out of an assignment as Arrow's batches, for one thread or task that reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from tidelog.client.arrow import (
    EVERYTHING,
    USUAL,
    Bounds,
    Layout,
    layout_of,
    pa,
    record_batches,
    to_table,
)
from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.decoding import Chunk
from tidelog.client.reader import Mine, Reader
from tidelog.names import TopicPartition

ROWS = 100_000
"""What a table has at most unless more is asked for."""


class ColumnReader(Reader):
    """As `Reader`, but nothing is decoded until it is taken, and then into columns."""

    def __init__(
        self,
        assignment: Assignment,
        layout: Layout,
        bounds: Mapping[TopicPartition, Bounds] | None = None,
    ) -> None:
        super().__init__(assignment, lambda state, unfolding: False)
        self.layout = layout
        self._bounds = bounds or {}
        # Where a reader is stopped in the middle it must know where it stands.
        has_offset = "offset" in layout.columns
        self._placed = layout if has_offset else Layout((*layout.columns, "offset"), layout.unit)

    @classmethod
    def beside(cls, reader: Reader, columns: Sequence[str] | None) -> Self:
        """A reader of the same assignment; when one of both comes back, what either was given is done with."""
        made = cls(reader.assignment, layout_of(columns, USUAL))
        made.touched = reader.touched
        made.unfolding = reader.unfolding
        return made

    def next_state(self, mine: Mine | None = None) -> PartitionState | None:
        """A partition of which a chunk is there."""
        while (state := self.assignment.next_state(mine or self._mine)) is not None:
            if state.messages is None and state.rest is None:
                self.touched.append(state)
                return state
            # Half of a chunk was handed out as messages, which were made from bytes that are gone: fetch the rest anew.
            self.assignment.seek(state.partition, offset=state.position)
        return None

    def take_chunk(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        """All that one chunk of the partition has within the bounds; the position moves when it is through."""
        epoch = state.epoch
        chunk = self.assignment.next_chunk(state)
        if chunk is None:
            return
        bounds = self._bounds.get(state.partition, EVERYTHING)
        # The fetcher has seen the checksums already.
        yield from record_batches(
            chunk, self.layout, bounds, check_crcs=False, unfolding=self.unfolding
        )
        if state.epoch == epoch:
            state.used_up()

    def take_rows(self, state: PartitionState, wanted: int) -> Iterator[pa.RecordBatch]:
        """Up to so many rows of one chunk; the position moves with each batch, and what is left is put back."""
        epoch = state.epoch
        chunk = self.assignment.next_chunk(state)
        if chunk is None:
            return
        batches = record_batches(chunk, self._placed, check_crcs=False, unfolding=self.unfolding)
        while (batch := self._next(batches, state, epoch, chunk)) is not None:
            some = batch.slice(0, wanted)
            wanted -= some.num_rows
            state.position = some.column("offset")[some.num_rows - 1].as_py() + 1
            # Whoever has got this may never come back, so the rest is not in our hands meanwhile.
            rest = self._put_back(state, epoch, chunk)
            yield some.select(list(self.layout.columns))
            if not wanted or state.paused or self.assignment.next_chunk(state, rest) is None:
                return  # it is enough, or somebody else has gone on, or sought elsewhere
        if state.epoch == epoch:
            state.used_up()

    def take_table(self, wanted: int, max_bytes: int) -> pa.Table:
        """Up to so many rows of what is there, and about so many bytes of them."""
        found: list[pa.RecordBatch] = []
        while wanted > 0 and max_bytes > 0 and (state := self.next_state()) is not None:
            for batch in self.take_rows(state, wanted):
                wanted -= batch.num_rows
                max_bytes -= batch.nbytes
                found.append(batch)
        return to_table(found, self.layout)

    def _next(
        self, batches: Iterator[pa.RecordBatch], state: PartitionState, epoch: int, chunk: Chunk
    ) -> pa.RecordBatch | None:
        try:
            return next(batches, None)
        except BaseException:
            self._put_back(state, epoch, chunk)
            raise

    def _put_back(self, state: PartitionState, epoch: int, chunk: Chunk) -> Chunk:
        rest = chunk._replace(fetch_offset=state.position)
        self.assignment.put_back(state, epoch, rest)
        return rest
