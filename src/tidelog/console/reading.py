"""Messages of a topic for people: a bounded page of them, and a live tail.

A page is what was found within bounds of count, bytes and time.  `next` has the offsets to go on from, `previous` those to go
back from.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

from tidelog.client.admin import AsyncAdmin
from tidelog.client.consumer import AsyncConsumer
from tidelog.client.filters import message_filter
from tidelog.client.message import Message
from tidelog.client.times import parse_time
from tidelog.console.clients import Clients
from tidelog.console.errors import bad_request, not_found
from tidelog.console.payloads import SHOWN_BYTES, Payloads, Shown
from tidelog.dataclass import dataclass
from tidelog.errors import SettingsError
from tidelog.names import TopicPartition

SCAN_BYTES = 64 * 1024 * 1024
SCAN_SECONDS = 5.0
PAGE_BYTES = 8 * 1024 * 1024
"""Of texts in one answer."""
MOST_TESTS = 10

_LATEST, _EARLIEST = -1, -2
_POLL_RECORDS = 500
_POLL_S = 0.25
_FIRST_STEP = 1_000
"""So many offsets of each partition are searched first."""
_CURSOR = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")

_TAIL_EVERY_S = 0.2
_TAIL_BATCH = 100
_TAIL_BEHIND = 2_000
"""A tail that is further behind jumps to the end: it is there to be watched."""
TAIL_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class ShownHeader:
    name: str
    value: Shown


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message for people."""

    partition: int
    offset: int
    timestamp: int
    key: Shown
    value: Shown
    headers: list[ShownHeader]


@dataclass(frozen=True, slots=True)
class Page:
    """What was found."""

    messages: list[ShownMessage]
    scanned: int
    """Messages that were looked at."""
    complete: bool
    """Whether everything was looked at that was asked for."""
    previous: str
    """`before` of the page before this one, as partition:offset,…"""
    next: str
    """`from` of the page after this one."""
    begin: dict[int, int]
    end: dict[int, int]
    """Where the partitions begin and end."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a page shall have."""

    topic: str
    since: str = "-50"
    partition: int | None = None
    before: str | None = None
    limit: int = 50
    q: str = ""
    where: tuple[str, ...] = ()
    committed: bool = False
    shown_bytes: int = SHOWN_BYTES
    page_bytes: int = PAGE_BYTES
    timeout_s: float = SCAN_SECONDS


async def read_page(clients: Clients, question: Question) -> Page:
    """One page."""
    fits = matcher(question, clients.payloads)
    places = await find_partitions(clients.admin, question.topic, question.partition)
    begins = await offsets(clients.admin, places, _EARLIEST)
    ends = await _ends(clients.admin, places, question.committed)
    stops = dict(ends)
    if question.before is not None:
        stops |= _clip(_cursor("before", question.before, question.topic, places), begins, ends)
    clients.payloads.forget()
    async with clients.consumer(committed=question.committed) as consumer:
        scan = _Scan(consumer, question, fits)
        if (count := _count(question.since)) is not None:
            found = await scan.backward(begins, stops, min(count, question.limit))
        else:
            starts = await _starts(clients.admin, question, begins, stops)
            found = await scan.forward(starts, stops, question.limit)
    shown = await asyncio.to_thread(
        show_messages, found.messages, clients.payloads, question.shown_bytes, question.page_bytes
    )
    return Page(
        shown,
        scan.seen,
        found.complete,
        _as_cursor(found.previous),
        _as_cursor(found.next),
        {tp.partition: offset for tp, offset in sorted(begins.items())},
        {tp.partition: offset for tp, offset in sorted(ends.items())},
    )


@dataclass(frozen=True, slots=True)
class _Found:
    messages: list[Message]
    complete: bool
    previous: dict[TopicPartition, int]
    next: dict[TopicPartition, int]


class _Scan:
    """Reads parts of partitions within the bounds of one question."""

    def __init__(
        self, consumer: AsyncConsumer, question: Question, fits: Callable[[Message], bool]
    ) -> None:
        self._consumer = consumer
        self._fits = fits
        self._deadline = time.monotonic() + question.timeout_s
        self._room = SCAN_BYTES
        self._searches = bool(question.q or question.where)
        self.seen = 0

    async def forward(
        self, starts: dict[TopicPartition, int], stops: Mapping[TopicPartition, int], limit: int
    ) -> _Found:
        """The first messages that fit."""
        found, places, complete = await self._read(starts, stops, limit)
        return _Found(_by_time(found), complete, starts, places)

    async def backward(
        self,
        begins: Mapping[TopicPartition, int],
        stops: dict[TopicPartition, int],
        count: int,
    ) -> _Found:
        """The last messages that fit: looked for in ever larger parts, from the end."""
        found: list[Message] = []
        highs, step = dict(stops), max(count, _FIRST_STEP if self._searches else 1)
        complete = True
        while complete and len(found) < count and any(highs[tp] > begins[tp] for tp in highs):
            lows = {tp: max(begins[tp], high - step) for tp, high in highs.items()}
            more, _, complete = await self._read(lows, highs, None)
            found += more
            highs = lows if complete else highs
            step *= 4
        found = _by_time(found)
        if len(found) > count:
            found = found[len(found) - count :]
            # Of a partition that is not among them nothing has been shown yet.
            highs = dict(stops)
            for each in reversed(found):
                tp = each.topic_partition
                highs[tp] = min(highs[tp], each.offset)
        return _Found(found, complete, highs, stops)

    async def _read(
        self,
        starts: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
        limit: int | None,
    ) -> tuple[list[Message], dict[TopicPartition, int], bool]:
        """What fits, where it ended in each partition, and whether that was as far as asked."""
        found: list[Message] = []
        places = dict(starts)
        left = {tp for tp, start in starts.items() if start < stops[tp]}
        consumer = self._consumer
        await consumer.assign(left)
        for tp in left:
            await consumer.seek(*tp, places[tp])
        while left:
            pause = min(_POLL_S, self._deadline - time.monotonic())
            if pause <= 0 or self._room <= 0:
                return found, places, False
            messages = await consumer.poll(max_records=_POLL_RECORDS, timeout=pause)
            wanted = [each for each in messages if each.offset < stops[each.topic_partition]]
            for each, fits in zip(wanted, await self._choose(wanted), strict=True):
                self.seen += 1
                self._room -= len(each.key or b"") + len(each.value or b"")
                places[each.topic_partition] = each.offset + 1
                if fits:
                    found.append(each)
                    if limit is not None and len(found) >= limit:
                        return found, places, True
            for tp, position in (await consumer.positions()).items():
                if tp in left and position >= stops[tp]:
                    places[tp] = stops[tp]
                    left.discard(tp)
            await consumer.assign(left)
        return found, places, True

    async def _choose(self, messages: list[Message]) -> list[bool]:
        if not self._searches:
            return [True] * len(messages)
        return await asyncio.to_thread(lambda: [self._fits(each) for each in messages])


def _by_time(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda each: (each.timestamp, each.partition, each.offset))


def show_messages(
    messages: Iterable[Message], payloads: Payloads, limit: int, room: int
) -> list[ShownMessage]:
    """For people; together not much more than there is room for."""
    shown = []
    for each in messages:
        one = show_message(each, payloads, min(limit, max(room, 0)))
        room -= len(one.value.text) + len(one.key.text)
        shown.append(one)
    return shown


def show_message(message: Message, payloads: Payloads, limit: int = SHOWN_BYTES) -> ShownMessage:
    return ShownMessage(
        message.partition,
        message.offset,
        message.timestamp,
        payloads.show(message.key, limit),
        payloads.show(message.value, limit),
        [ShownHeader(name, payloads.show(value, limit)) for name, value in message.headers],
    )


def matcher(question: Question, payloads: Payloads) -> Callable[[Message], bool]:
    """Whether a message has the text in it, and passes the tests; a schema may have to be asked for, so in a thread."""
    if len(question.where) > MOST_TESTS:
        raise bad_request(f"there are {len(question.where)} tests; {MOST_TESTS} are the most")
    now_ms = int(time.time() * 1000)
    try:
        tests = message_filter(question.where, now_ms, option="where", patterns=False)
    except (SettingsError, OverflowError) as error:
        raise bad_request(str(error)) from None
    wanted = question.q.lower()

    def has_text(message: Message) -> bool:
        if not wanted:
            return True
        if any(wanted in payloads.text_of(each).lower() for each in (message.value, message.key)):
            return True
        return any(
            wanted in name.lower() or wanted in payloads.text_of(value).lower()
            for name, value in message.headers
        )

    if not question.where:
        return has_text

    def fits(message: Message) -> bool:
        # Avro is tested as the JSON that is shown of it.
        plain = message._replace(
            value=payloads.text_of(message.value).encode("utf-8", "replace"),
            key=payloads.text_of(message.key).encode("utf-8", "replace"),
        )
        return tests(plain) and has_text(message)

    return fits


# ---------------------------------------------------------------------- where to begin


async def find_partitions(
    admin: AsyncAdmin, topic: str, partition: int | None
) -> list[TopicPartition]:
    """All partitions of the topic, or the one; 404 if there is no such."""
    described = (await admin.describe_topics([topic]))[topic]
    places = [TopicPartition(topic, each.partition) for each in described.partitions]
    if partition is None:
        return places
    if TopicPartition(topic, partition) not in places:
        raise not_found(f"topic {topic!r} has partitions 0 to {len(places) - 1}, not {partition}")
    return [TopicPartition(topic, partition)]


async def offsets(
    admin: AsyncAdmin, places: Iterable[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(places, moment))
    return {tp: each.offset for tp, each in found.items()}


async def _ends(
    admin: AsyncAdmin, places: Iterable[TopicPartition], committed: bool
) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(places, _LATEST), committed=committed)
    return {tp: each.offset for tp, each in found.items()}


def _count(since: str) -> int | None:
    """How many of the last messages are wanted; None if it says something else."""
    return int(since[1:]) if re.fullmatch(r"-\d{1,9}", since) else None


async def _starts(
    admin: AsyncAdmin,
    question: Question,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    since = question.since.strip()
    if since in ("start", "beginning", ""):
        return dict(begins)
    if since == "end":
        return dict(ends)
    if _CURSOR.fullmatch(since):
        given = _cursor("from", since, question.topic, begins)
        return dict(ends) | _clip(given, begins, ends)
    if re.fullmatch(r"\d{1,18}", since):
        return _clip(dict.fromkeys(begins, int(since)), begins, ends)
    found = await offsets(admin, begins, parse_moment("from", since))
    return {tp: found[tp] if 0 <= found[tp] <= ends[tp] else ends[tp] for tp in begins}


def parse_moment(name: str, text: str) -> int:
    """A time in ms; what is none is a 400."""
    try:
        moment = parse_time(text, int(time.time() * 1000))
    except (SettingsError, OverflowError, ValueError, OSError):
        raise bad_request(
            f"{name}={text!r} is none of: -10 (the last ten), start, end, an offset, 10m (ago), "
            "2026-01-31T12:00, @milliseconds, partition:offset,…"
        ) from None
    if not 0 <= moment < 1 << 62:
        raise bad_request(f"{name}={text!r} is no time that a message can have")
    return moment


def _cursor(
    name: str, text: str, topic: str, places: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    if not _CURSOR.fullmatch(text):
        raise bad_request(f"{name}={text!r} must be partition:offset,… such as 0:500,1:700")
    known = set(places)
    pairs = (each.split(":") for each in text.split(","))
    found = {TopicPartition(topic, int(index)): int(offset) for index, offset in pairs}
    return {tp: offset for tp, offset in found.items() if tp in known}


def _as_cursor(places: Mapping[TopicPartition, int]) -> str:
    return ",".join(f"{tp.partition}:{offset}" for tp, offset in sorted(places.items()))


def _clip(
    given: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    return {tp: min(max(offset, begins[tp]), ends[tp]) for tp, offset in given.items()}


# ---------------------------------------------------------------------- the tail


@dataclass(frozen=True, slots=True)
class TailStep:
    """What came since the last step, and how many messages were passed over because there were too many."""

    messages: list[ShownMessage]
    skipped: int


async def tail(clients: Clients, question: Question) -> AsyncGenerator[TailStep]:
    """Messages as they come; a step every second, with or without any."""
    fits = matcher(question, clients.payloads)
    places = await find_partitions(clients.admin, question.topic, question.partition)
    begins = await offsets(clients.admin, places, _EARLIEST)
    ends = await _ends(clients.admin, places, question.committed)
    count = _count(question.since)
    if count is not None:
        starts = {tp: max(begins[tp], ends[tp] - count) for tp in places}
    else:
        starts = await _starts(clients.admin, question, begins, ends)
    until = time.monotonic() + TAIL_MAX_S
    async with clients.consumer(committed=question.committed) as consumer:
        await consumer.assign(places)
        for tp, offset in starts.items():
            await consumer.seek(*tp, offset)
        yield TailStep([], 0)
        while time.monotonic() < until:
            messages = await consumer.poll(max_records=_POLL_RECORDS, timeout=1.0)
            step = await asyncio.to_thread(_step, messages, fits, clients.payloads)
            behind = sum((await consumer.lag()).values())
            if behind > _TAIL_BEHIND:
                await consumer.seek_to_end()
                step = TailStep(step.messages, step.skipped + behind)
            yield step
            if messages:
                await asyncio.sleep(_TAIL_EVERY_S)


def _step(messages: list[Message], fits: Callable[[Message], bool], payloads: Payloads) -> TailStep:
    fitting = _by_time(each for each in messages if fits(each))
    shown = [show_message(each, payloads) for each in fitting[-_TAIL_BATCH:]]
    return TailStep(shown, max(0, len(fitting) - _TAIL_BATCH))
