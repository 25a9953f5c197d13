"""Passes over random histories: the latest value of every key survives, whatever is cleaned, and nothing else changes.

Files are real, the swap is a plain rename; the log with its crash-safe swap is in test_cleaner.py.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.records.batch import BatchHeader, Record, iterate_batches, read_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.control import EndTransactionMarker, read_marker
from tidelog.storage.compaction import LogFacts, SegmentFacts, dirtiness
from tidelog.storage.compaction_filter import LastBatch
from tidelog.storage.compaction_pass import CleaningPass, Job, cleaned_paths
from tidelog.storage.config import LogConfig
from tidelog.storage.files import LocalFiles
from tidelog.storage.keymap import ENTRY_BYTES
from tidelog.storage.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX, file_name
from tidelog.storage.txnindex import AbortedTransaction, TransactionIndex

RETENTION_MS = 1000


@dataclass
class History:
    """A log of plain files, and what was written to it."""

    directory: str
    bases: list[int] = field(default_factory=lambda: [0])
    end_offset: int = 0
    now_ms: int = 1_000_000
    checkpoint: int | None = None
    written: dict[int, Record] = field(default_factory=dict)
    committed: list[Record] = field(default_factory=list)
    open: dict[int, tuple[int, list[Record]]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    last: dict[int, LastBatch] = field(default_factory=dict)
    ranges: set[tuple[int, int]] = field(default_factory=set)
    """First and last offset of each batch."""

    def __post_init__(self) -> None:
        self.files = LocalFiles()

    def path(self, base: int, suffix: str = LOG) -> str:
        return os.path.join(self.directory, file_name(base, suffix))

    def data(self, base: int) -> bytes:
        path = self.path(base)
        return self.files.read(path) if os.path.exists(path) else b""

    # ---------------------------------------------------------------- writing

    def write(
        self,
        pairs: list[tuple[bytes, bytes | None]],
        codec: Codec = Codec.NONE,
        producer: int = -1,
        transactional: bool = False,
    ) -> None:
        base = self.end_offset
        rows = [
            (self.now_ms + i, key, value, (("n", b"1"),)) for i, (key, value) in enumerate(pairs)
        ]
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        self._append(
            build_batch(
                rows,
                base_offset=base,
                leader_epoch=3,
                codec=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence,
                transactional=transactional,
            ),
            len(pairs),
        )
        records = [Record(base + i, *row) for i, row in enumerate(rows)]
        self.written |= {each.offset: each for each in records}
        if producer >= 0:
            self.sequences[producer] = sequence + len(pairs)
            self.last[producer] = LastBatch(self.end_offset - 1, 0)
        if transactional:
            self.open.setdefault(producer, (base, []))[1].extend(records)
        else:
            self.committed += records

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        offset = self.end_offset
        marker = EndTransactionMarker(commit=commit, coordinator_epoch=0)
        first, records = self.open.pop(producer, (-1, []))
        batch = marker.build(
            producer_id=producer, producer_epoch=0, timestamp_ms=self.now_ms, base_offset=offset
        )
        self._append(batch, 1)
        self.last.setdefault(producer, LastBatch(-1, 0))
        if commit:
            self.committed += records
        elif first >= 0:
            index = self.transaction_index(self.bases[-1])
            index.append(AbortedTransaction(producer, first, offset, self.last_stable_offset))

    def roll(self) -> None:
        if self.data(self.bases[-1]):
            self.bases.append(self.end_offset)

    def transaction_index(self, base: int) -> TransactionIndex:
        path = self.path(base, TXN_INDEX)
        return TransactionIndex(self.files, path, exists=os.path.exists(path))

    @property
    def last_stable_offset(self) -> int:
        return min((first for first, _ in self.open.values()), default=self.end_offset)

    def _append(self, batch: bytearray, count: int) -> None:
        with open(self.path(self.bases[-1]), "ab") as file:
            file.write(batch)
        self.ranges.add((self.end_offset, self.end_offset + count - 1))
        self.end_offset += count

    @property
    def state(self) -> dict[bytes, bytes]:
        """What a reader of committed records knows at the end: the order of offsets decides, not that of the ends."""
        last = {each.key: each.value for each in sorted(self.committed)}
        return {k: v for k, v in last.items() if k is not None and v is not None}

    # ---------------------------------------------------------------- cleaning

    def facts(self) -> list[SegmentFacts]:
        return [SegmentFacts(each, len(self.data(each))) for each in self.bases]

    def clean(self, *, map_bytes: int = 1 << 20, segment_bytes: int = 1 << 30) -> bool:
        """One pass; False if there was nothing to clean."""
        facts = LogFacts(
            log_start_offset=0,
            log_end_offset=self.end_offset,
            last_stable_offset=self.last_stable_offset,
            segments=self.facts(),
            config=LogConfig(),
        )
        dirt = dirtiness(facts, self.checkpoint, self.now_ms)
        if not dirt.cleanable_bytes:
            return False
        uncleanable = dirt.first_uncleanable_offset
        after = [each for each in self.bases if each >= uncleanable]
        untouched = [self.data(each) for each in after]
        aborted = [x for base in self.bases for x in self.transaction_index(base).entries()]
        job = Job(
            directory=self.directory,
            segments=[each for each in facts.segments if each.base_offset < uncleanable],
            first_dirty_offset=dirt.first_dirty_offset,
            first_uncleanable_offset=uncleanable,
            aborted=[each for each in aborted if each.first_offset < uncleanable],
            producers=self.last,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            segment_bytes=segment_bytes,
            segment_index_bytes=1 << 20,
            index_interval_bytes=64,
            map_bytes=map_bytes,
            map_load_factor=0.9,
            io_buffer_bytes=256,
        )
        spent: list[int] = []
        cleaning = CleaningPass(job, self.files, spent.append)
        mapped = cleaning.map_keys()
        assert dirt.first_dirty_offset < mapped.end_offset <= uncleanable
        for group in mapped.groups:
            cleaned = cleaning.clean(group)
            assert cleaned.base_offset == group[0]
            self.swap(group)
            assert len(self.data(group[0])) == cleaned.size_bytes
        cleaning.close()
        self.checkpoint = mapped.end_offset
        assert [self.data(each) for each in after] == untouched
        return True

    def swap(self, group: list[int]) -> None:
        for base in group:
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                self.files.remove(self.path(base, suffix))
        for suffix, path in cleaned_paths(self.directory, group[0]).items():
            if os.path.exists(path):
                self.files.rename(path, self.path(group[0], suffix))
            else:
                assert suffix == TXN_INDEX
        self.bases = [each for each in self.bases if each not in group[1:]]

    # ---------------------------------------------------------------- reading

    def batches(self) -> Iterator[tuple[bytes, int, BatchHeader]]:
        for base in self.bases:
            data = self.data(base)
            for position, header in iterate_batches(data):
                yield data, position, header

    def records(self) -> list[Record]:
        return [
            record
            for data, position, header in self.batches()
            if not header.is_control
            for record in read_records(data, position)
        ]

    def read_committed(self) -> list[Record]:
        """As a consumer does it: with the list of aborted transactions and the markers."""
        waiting = sorted(
            (x for base in self.bases for x in self.transaction_index(base).entries()),
            key=lambda each: each.first_offset,
        )
        aborted: set[int] = set()
        found = []
        for data, position, header in self.batches():
            if header.last_offset >= self.last_stable_offset:
                break
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if header.is_control:
                marker = read_marker(data, position)
                if marker and not marker.commit:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                found += read_records(data, position)
        return found

    def check(self) -> None:
        """All that must hold after any number of passes."""
        state: dict[bytes, bytes | None] = {}
        for record in self.read_committed():
            assert record.key is not None
            state[record.key] = record.value
        state |= {each.key: each.value for each in self.pending() if each.key is not None}
        assert {k: v for k, v in state.items() if v is not None} == self.state
        records = self.records()
        assert all(self.written[each.offset] == each for each in records)
        offsets = [each.offset for each in records]
        assert offsets == sorted(set(offsets))
        assert {(h.base_offset, h.last_offset) for _, _, h in self.batches()} <= self.ranges
        sequences = {
            header.producer_id: header.last_sequence
            for _, _, header in self.batches()
            if header.base_sequence >= 0
        }
        assert sequences == {each: last - 1 for each, last in self.sequences.items()}
        assert self.last_header().last_offset == self.end_offset - 1

    def pending(self) -> list[Record]:
        """Committed records above the last stable offset: they count, but a reader does not get them yet."""
        undecided = {each.offset for _, records in self.open.values() for each in records}
        aborted = [x for base in self.bases for x in self.transaction_index(base).entries()]
        found = []
        for data, position, header in self.batches():
            if header.is_control or header.last_offset < self.last_stable_offset:
                continue
            gone = header.is_transactional and any(
                each.producer_id == header.producer_id
                and each.first_offset <= header.base_offset < each.last_offset
                for each in aborted
            )
            if not gone:
                found += [x for x in read_records(data, position) if x.offset not in undecided]
        return found

    def last_header(self) -> BatchHeader:
        return list(self.batches())[-1][2]


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b""])
PAIRS = st.lists(
    st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=40))), min_size=1, max_size=6
)
STEPS = st.one_of(
    st.tuples(st.just("write"), PAIRS, st.sampled_from(Codec), st.sampled_from([-1, 1, 2])),
    st.tuples(st.just("transact"), PAIRS, st.sampled_from(Codec), st.sampled_from([3, 4])),
    st.tuples(st.just("end"), st.sampled_from([3, 4]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.integers(1, 3 * RETENTION_MS)),
    st.tuples(st.just("clean"), st.integers(3, 12), st.sampled_from([200, 1000, 1 << 30])),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(STEPS, min_size=3, max_size=60))
def test_any_history_keeps_its_meaning(steps: list[tuple]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(directory)
        history.write([(b"first", b"1")])
        for step in steps:
            match step:
                case ("write", pairs, codec, producer):
                    history.write(pairs, codec, producer)
                case ("transact", pairs, codec, producer):
                    history.write(pairs, codec, producer, transactional=True)
                case ("end", producer, commit):
                    history.end_transaction(producer, commit=commit)
                case ("roll",):
                    history.roll()
                case ("wait", ms):
                    history.now_ms += ms
                case ("clean", slots, segment_bytes):
                    history.clean(map_bytes=slots * ENTRY_BYTES, segment_bytes=segment_bytes)
                    history.check()
        settle(history)


def settle(history: History) -> None:
    """End everything, clean everything, and see that only what must be there is left."""
    for producer in list(history.open):
        history.end_transaction(producer, commit=True)
    history.roll()
    history.check()
    history.checkpoint = None
    history.clean()
    history.check()
    kept = history.records()
    assert len(kept) == len(
        {each.key for each in kept}
    )  # one record for each key, aborted ones gone
    # Once tombstones and markers have had their time, nothing but live keys and places of producers is left.
    for _ in range(3):
        history.now_ms += RETENTION_MS
        history.checkpoint = None
        history.clean()
        history.check()
    assert {each.key: each.value for each in history.records()} == history.state
    # (As in Kafka, a producer known by its markers alone keeps all those of its epoch, emptied.)
    silent = {each for each, last in history.last.items() if last.last_data_offset < 0}
    left = [header for _, _, header in history.batches() if header.producer_id not in silent]
    assert len(left) <= len(history.state) + 2 * len(history.last) + 1


def test_several_passes_follow_when_the_map_is_full(tmp_path) -> None:
    history = History(str(tmp_path))
    for round_ in range(4):
        for each in range(50):
            history.write([(b"%d" % each, b"%d" % round_)])
        history.roll()
    passes = 0
    while history.clean(map_bytes=20 * ENTRY_BYTES):
        history.check()
        passes += 1
    assert passes > 5
    assert [each.value for each in history.records()] == [b"3"] * 50


def test_batches_that_keep_all_their_records_are_copied_byte_for_byte(tmp_path) -> None:
    history = History(str(tmp_path))
    history.write([(b"a", b"1"), (b"b", b"2")], Codec.GZIP)
    history.write([(b"c", b"3")], Codec.ZSTD)
    before = history.data(0)
    history.roll()
    assert history.clean()
    assert history.data(0) == before


def test_a_tombstone_stays_for_its_retention_and_not_longer(tmp_path) -> None:
    history = History(str(tmp_path))
    history.write([(b"a", b"1"), (b"b", b"2")])
    history.write([(b"a", None)], Codec.LZ4)
    history.roll()
    assert history.clean()
    assert [each.value for each in history.records()] == [b"2", None]
    header = history.last_header()
    assert header.has_delete_horizon
    assert header.base_timestamp == history.now_ms + RETENTION_MS
    assert header.max_timestamp == history.written[2].timestamp
    history.now_ms += RETENTION_MS - 1
    history.checkpoint = None
    history.clean()
    assert [each.value for each in history.records()] == [b"2", None]
    history.now_ms += 1
    history.checkpoint = None
    history.clean()
    assert [each.value for each in history.records()] == [b"2"]
    history.check()


def test_a_tombstone_that_the_map_has_not_reached_keeps_its_full_retention(tmp_path) -> None:
    history = History(str(tmp_path))
    history.write([(b"%d" % each, b"") for each in range(10)])
    history.write([(b"0", None)])
    history.roll()
    history.clean(map_bytes=5 * ENTRY_BYTES)
    assert not history.last_header().has_delete_horizon
    while history.clean(map_bytes=5 * ENTRY_BYTES):
        history.check()
    assert history.last_header().has_delete_horizon


def test_the_last_batch_of_a_producer_stays_without_records(tmp_path) -> None:
    history = History(str(tmp_path))
    history.write([(b"a", b"1"), (b"b", b"1")], Codec.GZIP, producer=1)
    history.write([(b"a", b"2"), (b"b", b"2")], producer=2)
    history.roll()
    assert history.clean()
    _, _, header = next(history.batches())
    assert (header.producer_id, header.count, header.base_sequence, header.last_sequence) == (
        1,
        0,
        0,
        1,
    )
    assert (header.base_offset, header.last_offset, header.base_timestamp) == (0, 1, -1)
    assert header.max_timestamp == history.now_ms + 1
    assert header.codec is Codec.NONE
    # As soon as the producer goes on, or is forgotten, it goes.
    history.last.pop(1)
    history.sequences.pop(1)
    history.checkpoint = None
    history.clean()
    history.check()
    assert next(history.batches())[2].producer_id == 2


def test_aborted_data_goes_first_its_marker_later(tmp_path) -> None:
    history = History(str(tmp_path))
    history.write([(b"a", b"good")])
    history.write([(b"a", b"bad")], producer=3, transactional=True)
    history.end_transaction(3, commit=False)
    history.write([(b"b", b"2")], producer=3, transactional=True)
    history.end_transaction(3, commit=True)
    history.roll()

    assert history.clean()
    history.check()
    assert [each.value for each in history.records()] == [b"good", b"2"]
    assert (
        len(history.transaction_index(0).entries()) == 1
    )  # the marker is there, and so is its entry

    history.checkpoint = None
    history.clean()
    markers = [header for _, _, header in history.batches() if header.is_control]
    assert [each.has_delete_horizon for each in markers] == [True, False]
    assert history.transaction_index(0).entries() == []

    history.now_ms += RETENTION_MS
    history.checkpoint = None
    history.clean()
    history.check()
    assert [header.base_offset for _, _, header in history.batches() if header.is_control] == [4]


def test_an_index_is_written_for_the_new_segment(tmp_path) -> None:
    history = History(str(tmp_path))
    for each in range(20):
        history.write([(b"%d" % each, b"x" * 50)])
    history.roll()
    assert history.clean()
    assert os.path.getsize(history.path(0, INDEX)) > 0
    assert os.path.getsize(history.path(0, TIME_INDEX)) > 0


def test_segments_are_merged_up_to_their_size(tmp_path) -> None:
    history = History(str(tmp_path))
    for each in range(20):
        history.write([(b"%d" % (each % 3), b"x" * 100)])
        history.roll()
    assert history.clean(segment_bytes=1000)
    assert 1 < len(history.bases) < 10
    history.checkpoint = None
    assert history.clean(segment_bytes=1000)
    assert len(history.bases) == 2
    history.check()
