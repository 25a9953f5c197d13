"""End-of-transaction markers: the control batches that say commit or abort.

A marker is one record in a batch of its own, with the transactional and the control bit set and no sequence:

    key    version int16 = 0, type int16 (0 abort, 1 commit)
    value  version int16 = 0, coordinator epoch int32
"""

import struct

from tidelog.dataclass import dataclass
from tidelog.errors import InvalidRecord
from tidelog.kernel.primitives import Buffer
from tidelog.records.batch import parse_header, read_records
from tidelog.records.builder import build_batch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of one producer's transaction in one partition."""

    commit: bool
    coordinator_epoch: int

    def build(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        timestamp_ms: int,
        base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> bytearray:
        """The control batch that carries this marker."""
        key = _KEY.pack(0, _COMMIT if self.commit else _ABORT)
        value = _VALUE.pack(0, self.coordinator_epoch)
        return build_batch(
            [(timestamp_ms, key, value, ())],
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=True,
            control=True,
        )


def control_type(key: bytes | None) -> int:
    """The type in the key of a control record: 0 abort, 1 commit, others belong to Kafka's quorum."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("a control record has no key that says its type")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record has version {version}")
    return int(kind)


def parse_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """The marker in a control record; None if it is a control record of another type."""
    kind = control_type(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecord("a transaction marker has no coordinator epoch")
    version, epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"a transaction marker has version {version}")
    return EndTransactionMarker(commit=kind == _COMMIT, coordinator_epoch=epoch)


def read_marker(buf: Buffer, pos: int = 0) -> EndTransactionMarker | None:
    """The marker in the batch at `pos`; None if the batch is not a control batch, is empty, or is of another type."""
    if not parse_header(buf, pos).is_control:
        return None
    records = read_records(buf, pos)
    return parse_marker(records[0].key, records[0].value) if records else None
