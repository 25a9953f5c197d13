"""Messages: a page of them, a live tail, an export, and writing one."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from tidelog.console.api.asking import INT32, INT64, Asks, MayWrite, TopicName, router
from tidelog.console.clients import Clients
from tidelog.console.errors import ConsoleError, answer_of, bad_request
from tidelog.console.payloads import SHOWN_BYTES, bytes_of
from tidelog.console.reading import (
    MOST_TESTS,
    Page,
    Question,
    ShownMessage,
    TailStep,
    find_partitions,
    read_page,
    tail,
)
from tidelog.dataclass import dataclass
from tidelog.errors import MessageTooLarge, TidelogError

ROUTER = router("messages")

MOST_TAILS = 32
_SAY_SOMETHING = 15
_EXPORT_BYTES = 64 * 1024 * 1024
_EXPORT_SECONDS = 30.0
_EXPORT_ROWS = 10_000
_COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")

Format = Literal["null", "text", "json", "base64", "hex", "avro"]

FROM = """Where to begin: `-10` (the last ten), `start`, `end`, an offset, `10m` (ago), `2026-01-31T12:00`, `@milliseconds`,
or `partition:offset,…` as `next` of a page has it."""


class NewHeader(BaseModel):
    name: Annotated[str, Field(max_length=1000)]
    value: str | None = None


class NewMessage(BaseModel):
    """A message to be written; `null` as a format makes none of the text."""

    key: str = ""
    key_format: Format = "null"
    value: str = ""
    value_format: Format = "text"
    headers: Annotated[list[NewHeader], Field(max_length=100)] = Field(default_factory=list)
    partition: Annotated[int | None, Field(ge=0, le=INT32)] = None
    timestamp: Annotated[int | None, Field(ge=0, le=INT64)] = None


@dataclass(frozen=True, slots=True)
class Written:
    topic: str
    partition: int
    offset: int


def question(
    topic: TopicName,
    since: Annotated[str, Query(alias="from", max_length=20_000, description=FROM)] = "-50",
    partition: Annotated[int | None, Query(ge=0, le=INT32)] = None,
    before: Annotated[
        str | None,
        Query(max_length=20_000, description="only what is before partition:offset,…"),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    q: Annotated[
        str, Query(max_length=1000, description="a text in the key, the value or a header")
    ] = "",
    where: Annotated[
        list[str] | None,
        Query(max_length=MOST_TESTS, description="such as value.customer=42, key!=a, offset<100"),
    ] = None,
    committed: Annotated[
        bool, Query(description="nothing of open or aborted transactions")
    ] = False,
    shown_bytes: Annotated[int, Query(ge=16, le=1 << 20)] = SHOWN_BYTES,
) -> Question:
    """What is asked for, in the same words for a page, a tail and an export."""
    tests = tuple(where or ())
    if any(len(each) > 1000 for each in tests):
        raise bad_request("a test of where is longer than 1000 characters")
    return Question(topic, since, partition, before, limit, q, tests, committed, shown_bytes)


Asked = Annotated[Question, Depends(question)]


@ROUTER.get("/topics/{topic}/messages")
async def read_messages(asked: Asked, clients: Asks) -> Page:
    """Messages of a topic, oldest first; bounded by count, 64 MB and five seconds."""
    return await read_page(clients, asked)


@ROUTER.post("/topics/{topic}/messages", status_code=201, dependencies=[MayWrite])
async def write_message(topic: TopicName, body: NewMessage, clients: Asks) -> Written:
    """Write one message."""
    await find_partitions(clients.admin, topic, body.partition)
    key, value = await asyncio.to_thread(_encode, body, topic, clients)
    headers = tuple(
        (each.name, None if each.value is None else each.value.encode()) for each in body.headers
    )
    try:
        delivery = await clients.producer.send(
            topic, value, key, headers, body.timestamp, body.partition
        )
        done = await delivery
    except MessageTooLarge as error:
        size = len(key or b"") + len(value or b"")
        raise MessageTooLarge(
            f"the message has {size} bytes, more than max.message.bytes of topic {topic!r} allows "
            f"({error.message})"
        ) from None
    return Written(topic, done.partition, done.offset)


@ROUTER.get(
    "/topics/{topic}/tail",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def tail_messages(request: Request, asked: Asked, clients: Asks) -> StreamingResponse:
    """Messages as they come, as server-sent events: `messages` with a list, `skipped` with a number, `failed` with an error."""
    state = request.app.state
    if state.tails >= MOST_TAILS:
        raise ConsoleError(429, "too_many_tails", f"{MOST_TAILS} live tails are open; close one")
    steps = tail(clients, asked)
    await anext(steps)  # what is wrong is told before the stream begins
    return StreamingResponse(_events(state, steps), media_type="text/event-stream")


async def _events(state: Any, steps: AsyncGenerator[TailStep]) -> AsyncIterator[str]:
    state.tails += 1
    silent = 0
    try:
        async with aclosing(steps):
            yield ": here we go\n\n"
            async for step in steps:
                silent = 0 if step.messages or step.skipped else silent + 1
                if step.messages:
                    yield _event("messages", [asdict(each) for each in step.messages])
                if step.skipped:
                    yield _event("skipped", step.skipped)
                if silent % _SAY_SOMETHING == _SAY_SOMETHING - 1:
                    yield ": still here\n\n"  # a reader that is gone is noticed when it is written to
                if state.stopping.is_set():
                    return
    except TidelogError as error:
        yield _event("failed", answer_of(error)[1])
    finally:
        state.tails -= 1


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


@ROUTER.get(
    "/topics/{topic}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            }
        }
    },
)
async def export_messages(
    asked: Asked,
    clients: Asks,
    format: Literal["ndjson", "csv"] = "ndjson",
    rows: Annotated[int, Query(ge=1, le=_EXPORT_ROWS)] = 1000,
) -> StreamingResponse:
    """A page as a file; of up to 10,000 messages, 64 MB, half a minute."""
    wanted = Question(
        asked.topic,
        asked.since,
        asked.partition,
        asked.before,
        rows,
        asked.q,
        asked.where,
        asked.committed,
        1 << 20,
        _EXPORT_BYTES,
        _EXPORT_SECONDS,
    )
    page = await read_page(clients, wanted)
    lines = _ndjson(page.messages) if format == "ndjson" else _csv(page.messages)
    kind = "application/x-ndjson" if format == "ndjson" else "text/csv; charset=utf-8"
    name = "".join(each if each.isalnum() or each in "._-" else "_" for each in asked.topic)
    return StreamingResponse(
        lines,
        media_type=kind,
        headers={"Content-Disposition": f'attachment; filename="{name}.{format}"'},
    )


def _ndjson(messages: list[ShownMessage]) -> Iterator[str]:
    for each in messages:
        yield json.dumps(_plain(each), ensure_ascii=False) + "\n"


def _csv(messages: list[ShownMessage]) -> Iterator[str]:
    yield ",".join(_COLUMNS) + "\n"
    for each in messages:
        row = _plain(each)
        row["headers"] = json.dumps(row["headers"], ensure_ascii=False) if row["headers"] else ""
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(map(_cell, row.values()))
        yield line.getvalue()


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is led by an apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _plain(message: ShownMessage) -> dict[str, Any]:
    shown = asdict(message)
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": None if message.key.format == "null" else shown["key"]["text"],
        "value": None if message.value.format == "null" else shown["value"]["text"],
        "headers": {each.name: each.value.text for each in message.headers},
    }


def _encode(body: NewMessage, topic: str, clients: Clients) -> tuple[bytes | None, bytes | None]:
    registry = clients.registry
    key = bytes_of("key", body.key_format, body.key, topic, registry)
    return key, bytes_of("value", body.value_format, body.value, topic, registry)
