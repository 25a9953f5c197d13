"""The live tail: server-sent events over a real socket."""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator

import pytest
from consoles import WAIT_S, Console

from tidelog.console.api import messages

MakeTopic = Callable[..., str]
Events = Iterator[tuple[str, object]]


@contextlib.contextmanager
def tail(console: Console, topic: str, query: str = "from=end") -> Iterator[Events]:
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=WAIT_S)
    with contextlib.closing(connection):
        connection.request("GET", f"/api/v1/topics/{topic}/tail?{query}")
        with connection.getresponse() as response:
            assert response.status == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.readline() == b": here we go\n"  # it has begun

            def events() -> Events:
                name = ""
                while line := response.readline():
                    kind, _, rest = line.decode().strip().partition(": ")
                    if kind == "event":
                        name = rest
                    elif kind == "data":
                        yield name, json.loads(rest)

            yield events()


def test_messages_as_they_come(console: Console, topic: MakeTopic):
    name = topic(2)
    console.post(f"/topics/{name}/messages", {"value": "before"})
    with tail(console, name) as events:
        for text in ("one", "two"):
            console.post(f"/topics/{name}/messages", {"value": text})
            kind, found = next(events)
            assert kind == "messages"
            assert [each["value"]["text"] for each in found] == [text]


def test_only_what_fits(console: Console, topic: MakeTopic):
    name = topic()
    with tail(console, name, "from=end&q=gold") as events:
        for text in ("lead", "tin", "gold"):
            console.post(f"/topics/{name}/messages", {"value": text})
        _, found = next(events)
        assert [each["value"]["text"] for each in found] == ["gold"]


def test_from_the_start(console: Console, topic: MakeTopic):
    name = topic()
    console.post(f"/topics/{name}/messages", {"value": "before"})
    with tail(console, name, "from=start") as events:
        _, found = next(events)
        assert [each["value"]["text"] for each in found] == ["before"]


def test_tails_are_bounded(console: Console, topic: MakeTopic, monkeypatch):
    monkeypatch.setattr(messages, "MOST_TAILS", 1)
    name = topic()
    with tail(console, name):
        answer = console.ask("GET", f"/topics/{name}/tail")
        assert (answer.status, answer.code) == (429, "too_many_tails")


@pytest.mark.parametrize("query", [{"where": "nonsense"}, {"from_": "yesterday"}])
def test_what_is_wrong_is_told_before_it_begins(console: Console, topic: MakeTopic, query):
    answer = console.ask("GET", f"/topics/{topic()}/tail", **query)
    assert (answer.status, answer.code) == (400, "bad_request")
