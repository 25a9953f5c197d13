"""Lays out the answer to a fetch, with the records left in their files.

The generated codec cannot leave holes for regions of files, so this layout is written by hand; tests hold it against the
codec in every version.

    throttle | error, session (7+) | topics: name or id (13+) | partitions:
        index | error | high watermark | last stable offset | log start (5+) | aborted | replica (11+) | records
"""

from struct import Struct as Packer

from tidelog.cluster.traffic import Traffic
from tidelog.kernel import write_uvarint
from tidelog.network.answer import Piece
from tidelog.protocol.messages.fetch import NodeEndpoint
from tidelog.storage.log import Region

_HEAD = Packer(">iii")  # length, correlation id, throttle time
_HEAD_FLEXIBLE = Packer(">iixihi")  # with error and session, which all flexible versions have
_ERROR_SESSION = Packer(">hi")
_PARTITION_4 = Packer(">ihqq")
_PARTITION_5 = Packer(">ihqqq")
_PARTITION_12 = Packer(">ihqqqBi")  # with no aborted transactions, and the replica
_ABORTED = Packer(">qq")
_INT16 = Packer(">h")
_INT32 = Packer(">i")
_LEADER_TAG = Packer(">BBiiB")  # number 1, nine bytes, leader id, leader epoch, no tags
_DIVERGING_TAG = Packer(">BBiqB")  # number 0, thirteen bytes, epoch, its end offset, no tags
_FLEXIBLE = 12
_BY_ID = 13


class Result:
    """What one partition is answered with."""

    __slots__ = (
        "aborted",
        "diverging",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "preferred_replica",
        "region",
        "topic",
        "traffic",
    )

    def __init__(self, topic: str | bytes, index: int, error_code: int = 0) -> None:
        self.topic = topic
        self.index = index
        self.error_code = error_code
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted: list[tuple[int, int]] | None = None
        """Aborted transactions among the records; None for who reads uncommitted records."""
        self.region: Region | None = None
        self.leader: tuple[int, int] | None = None
        """Id and epoch of another leader, told with an error (KIP-951)."""
        self.diverging: tuple[int, int] | None = None
        """Where a follower's log has to be cut: our largest epoch at most its last, and where that ended."""
        self.preferred_replica = -1
        """A replica nearer to the consumer, from which it should read (KIP-392)."""
        self.traffic: Traffic | None = None
        """To which the bytes of the region count."""


def lay_out(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    results: list[Result],
    endpoints: list[NodeEndpoint],
    *,
    throttle_ms: int = 0,
) -> list[Piece]:
    """The whole frame as pieces; `results` of one topic follow each other."""
    flexible = version >= _FLEXIBLE
    if flexible:
        head = _HEAD_FLEXIBLE.pack(0, correlation_id, throttle_ms, error_code, session_id)
    else:
        head = _HEAD.pack(0, correlation_id, throttle_ms)
        if version >= 7:
            head += _ERROR_SESSION.pack(error_code, session_id)
    out = bytearray(head)
    first, region_bytes, other_bytes = out, 0, 0
    pieces: list[Piece] = [out]
    topics = _by_topic(results)
    _put_count(out, len(topics), flexible)
    for topic, group in topics:
        _put_topic(out, topic, version)
        _put_count(out, len(group), flexible)
        for result in group:
            _put_partition(out, result, version)
            region = result.region
            if region is not None:
                region_bytes += region.length
                other_bytes += len(out)
                pieces.append(region)
                out = bytearray()
                pieces.append(out)
            if flexible:
                _put_tags(out, result)
        if flexible:
            out.append(0)
    if flexible:
        _put_endpoints(out, endpoints if version >= 16 else [])
    _INT32.pack_into(first, 0, region_bytes + other_bytes + len(out) - 4)
    return pieces


def _by_topic(results: list[Result]) -> list[tuple[str | bytes, list[Result]]]:
    if len(results) == 1:
        return [(results[0].topic, results)]
    topics: dict[str | bytes, list[Result]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(result)
    return list(topics.items())


def _put_topic(out: bytearray, topic: str | bytes, version: int) -> None:
    if isinstance(topic, bytes):
        out += topic
        return
    raw = topic.encode()
    if version >= _FLEXIBLE:
        write_uvarint(out, len(raw) + 1)
    else:
        out += _INT16.pack(len(raw))
    out += raw


def _put_partition(out: bytearray, result: Result, version: int) -> None:
    flexible = version >= _FLEXIBLE
    region_bytes = result.region.length if result.region is not None else 0
    if flexible and not result.aborted:
        out += _PARTITION_12.pack(
            result.index,
            result.error_code,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            0 if result.aborted is None else 1,
            result.preferred_replica,
        )
        _put_count(out, region_bytes, flexible)
        return
    if version >= 5:
        out += _PARTITION_5.pack(
            result.index,
            result.error_code,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
        )
    else:
        out += _PARTITION_4.pack(
            result.index, result.error_code, result.high_watermark, result.last_stable_offset
        )
    if result.aborted is None:
        out += b"\x00" if flexible else _INT32.pack(-1)
    else:
        _put_count(out, len(result.aborted), flexible)
        for producer_id, first_offset in result.aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            if flexible:
                out.append(0)
    if version >= 11:
        out += _INT32.pack(result.preferred_replica)
    _put_count(out, region_bytes, flexible)


def _put_tags(out: bytearray, result: Result) -> None:
    """The tagged fields of a partition."""
    if result.leader is None and result.diverging is None:
        out.append(0)
        return
    out.append((result.leader is not None) + (result.diverging is not None))
    if result.diverging is not None:
        out += _DIVERGING_TAG.pack(0, 13, *result.diverging, 0)
    if result.leader is not None:
        out += _LEADER_TAG.pack(1, 9, *result.leader, 0)


def _put_endpoints(out: bytearray, endpoints: list[NodeEndpoint]) -> None:
    """The tagged fields of the answer."""
    if not endpoints:
        out.append(0)
        return
    body = bytearray()
    write_uvarint(body, len(endpoints) + 1)
    for each in endpoints:
        body += _INT32.pack(each.node_id)
        _put_topic(body, each.host, _FLEXIBLE)
        body += _INT32.pack(each.port)
        if each.rack is None:
            body.append(0)
        else:
            _put_topic(body, each.rack, _FLEXIBLE)
        body.append(0)
    out += b"\x01\x00"
    write_uvarint(out, len(body))
    out += body


def _put_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        if count < 127:
            out.append(count + 1)
        else:
            write_uvarint(out, count + 1)
    else:
        out += _INT32.pack(count)
