"""Several registries over one broker: one writes, all answer, and a kill costs neither a schema nor an id."""

import asyncio
import json
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tidelog
from tidelog.client.cluster import Cluster
from tidelog.client.settings import ClientSettings, load
from tidelog.schemas import RegistryClient, RegistryError, RegistryUnreachable
from tidelog.schemas.journal import NoopKey, SchemaKey, decode
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.schemas.model import Registered, Schema, SchemaId
from tidelog.schemas.writer import NotTheWriter, Writer
from tidelog.testing.local_broker import LocalBroker

pytestmark = pytest.mark.compat

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "offsets.topic.num.partitions": "2",
    }
    with LocalBroker(settings=settings) as running:
        yield running
        assert "Traceback" not in running.log(), running.log()


@pytest.fixture
def start(
    broker: LocalBroker, unique: Callable[[str], str]
) -> Iterator[Callable[[], LocalRegistry]]:
    """Starts instances that belong together, on a topic of the test's own."""
    topic, group = unique("schemas"), unique("registries")
    started: list[LocalRegistry] = []

    def another() -> LocalRegistry:
        arguments = [
            "--topic",
            topic,
            "--group",
            group,
            "--session-timeout-ms",
            "1000",
            "--log-level",
            "info",
        ]
        registry = LocalRegistry(broker.bootstrap, arguments=arguments)
        started.append(registry)
        registry.topic = topic  # type: ignore[attr-defined]
        return registry.start()

    yield another
    for each in started:
        each.__exit__(None, None, None)


def schema(number: int) -> str:
    return json.dumps({"type": "fixed", "name": f"F{number}", "size": number % 100 + 1})


def is_writer(registry: LocalRegistry) -> bool:
    return "the registry's writer is this instance" in registry.log().splitlines()[-1] or (
        registry.log().rfind("writer is this instance") > registry.log().rfind("writer is http")
    )


def writer_among(registries: list[LocalRegistry]) -> LocalRegistry:
    """The one that says last that it writes; it may take a moment until one does."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for each in registries:
            if is_writer(each):
                return each
        time.sleep(0.05)
    raise AssertionError("nobody became the writer")


def records(bootstrap: str, topic: str) -> list[Any]:
    """All that stands in the topic."""
    found: list[Any] = []
    with tidelog.SimpleConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=50) as consumer:
        offset = 0
        while messages := consumer.fetch(topic, 0, offset):
            found += [decode(each.key, each.value) for each in messages]
            offset = messages[-1].offset + 1
    return found


def check_ids(entries: list[Any]) -> dict[int, str]:
    """No id stands for two schemas, no place was taken twice; returns what each id stands for."""
    owners: dict[int, str] = {}
    places: dict[SchemaKey, int] = {}
    for key, value in entries:
        if isinstance(key, SchemaKey) and isinstance(value, Registered):
            assert owners.setdefault(value.id, value.schema.text) == value.schema.text
            assert places.setdefault(key, value.id) == value.id
    return owners


def test_reads_and_writes_anywhere(start: Callable[[], LocalRegistry]) -> None:
    with RegistryClient(start().url) as one, RegistryClient(start().url) as other:
        first = one.register("a", schema(1))
        assert other.register("b", schema(2)) == first + 1
        assert other.subjects() == ["a", "b"], "who hands a write on sees it afterwards"
        other.set_compatibility("NONE", "a")
        assert one.latest("b").id == first + 1
        with pytest.raises(RegistryError) as refused:
            other.register("b", '"nonsense"')
        assert refused.value.code == 42201
        assert other.delete_subject("b") == [1]
        assert one.subjects() == ["a"]


def test_concurrent_registration_at_two_instances(
    broker: LocalBroker, start: Callable[[], LocalRegistry]
) -> None:
    registries = [start(), start()]
    given: dict[str, set[int]] = {}
    lock = threading.Lock()

    def work(worker: int) -> None:
        with RegistryClient(registries[worker % 2].url) as client:
            for number in range(12):
                # Each schema is registered by several workers at once, under subjects of their own.
                id = client.register(f"s{worker}-{number}", schema(number))
                with lock:
                    given.setdefault(schema(number), set()).add(id)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(given) == 12
    assert all(len(ids) == 1 for ids in given.values()), "one schema has one id"
    assert len({id for ids in given.values() for id in ids}) == 12
    owners = check_ids(records(broker.bootstrap, registries[0].topic))  # type: ignore[attr-defined]
    assert len(owners) == 12


@pytest.mark.faults
def test_the_writer_is_killed_again_and_again(
    broker: LocalBroker, start: Callable[[], LocalRegistry]
) -> None:
    registries = [start(), start()]
    urls = [each.url for each in registries]
    acknowledged: dict[str, int] = {}
    stop = threading.Event()
    failures: list[Exception] = []

    def work(worker: int) -> None:
        with RegistryClient(urls[worker:] + urls[:worker]) as client:
            number = worker
            while not stop.is_set():
                try:
                    acknowledged[schema(number)] = client.register(f"s{number}", schema(number))
                except RegistryUnreachable:
                    continue  # both may be away for a moment: it is tried again
                except RegistryError as error:
                    if error.status != 500:
                        failures.append(error)
                        return
                    continue
                number += 2

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
    for each in threads:
        each.start()
    try:
        for _ in range(2):
            before = len(acknowledged)
            writer = next((each for each in registries if is_writer(each)), registries[0])
            assert writer.process is not None
            writer.process.send_signal(signal.SIGKILL)
            writer.process.wait()
            _until(lambda before=before: len(acknowledged) > before + 5 or bool(failures))
            writer.start()
            after = len(acknowledged)
            _until(lambda after=after: len(acknowledged) > after + 5 or bool(failures))
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert not failures
    owners = check_ids(records(broker.bootstrap, registries[0].topic))  # type: ignore[attr-defined]
    for text, id in acknowledged.items():
        assert owners[id] == json.dumps(json.loads(text), separators=(",", ":")), (
            "acknowledged and lost"
        )
    with RegistryClient(urls[0]) as one, RegistryClient(urls[1]) as other:
        assert one.subjects() == other.subjects()


@pytest.mark.faults
def test_a_writer_that_slept_can_do_no_harm(
    broker: LocalBroker, start: Callable[[], LocalRegistry]
) -> None:
    registries = [start(), start()]
    with RegistryClient(registries[0].url) as client:
        client.register("s", schema(0))
    sleeper = writer_among(registries)
    other = next(each for each in registries if each is not sleeper)
    assert sleeper.process is not None
    sleeper.process.send_signal(signal.SIGSTOP)
    with RegistryClient(other.url) as client:
        id = client.register("t", schema(1))
    sleeper.process.send_signal(signal.SIGCONT)
    with RegistryClient(sleeper.url) as client:
        assert client.register("u", schema(2)) == id + 1
        assert client.subjects() == ["s", "t", "u"]
    check_ids(records(broker.bootstrap, sleeper.topic))  # type: ignore[attr-defined]


async def test_an_old_writer_is_refused(bootstrap: str, unique: Callable[[str], str]) -> None:
    topic, name = unique("fenced"), unique("writer")
    with tidelog.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({topic: 1}, configs={"cleanup.policy": "compact"})
    settings = load(ClientSettings, {"bootstrap.servers": bootstrap}, {})
    clusters = [Cluster(settings), Cluster(settings)]
    try:
        old, new = (Writer(cluster, topic, name, 10.0) for cluster in clusters)
        entry = (SchemaKey("s", 1), Registered("s", 1, SchemaId(1), Schema('"int"')))
        assert await old.take_over(0) == 0
        with pytest.raises(NotTheWriter):
            await old.append([entry])  # nobody has said that all was read
        old.ready = True
        assert await old.append([entry, entry]) == 2
        assert await new.take_over(1) == 3
        new.ready = True
        with pytest.raises(NotTheWriter):
            await old.append([entry])
        with pytest.raises(NotTheWriter):
            await old.append([entry])
        assert not old.ready
        assert await new.append([entry]) == 4
        assert await old.take_over(1) == 5
        old.ready = True
        with pytest.raises(NotTheWriter):
            await new.append([entry])
    finally:
        for each in clusters:
            await each.close()
    kinds = await asyncio.to_thread(records, bootstrap, topic)
    assert [type(key) for key, _ in kinds] == [
        NoopKey,
        SchemaKey,
        SchemaKey,
        NoopKey,
        SchemaKey,
        NoopKey,
    ]


def test_a_restart_finds_everything(start: Callable[[], LocalRegistry]) -> None:
    registry = start()
    with RegistryClient(registry.url) as client:
        ids = [client.register("s", f'{{"type":"string","v":{each}}}') for each in range(20)]
        client.delete_version("s", 20)
        client.delete_version("s", 20, permanent=True)
        client.set_compatibility("FULL", "s")
    assert registry.stop() == 0
    registry.start()
    with RegistryClient(registry.url) as client:
        assert client.versions("s") == list(range(1, 20))
        assert client.compatibility("s") == "FULL"
        assert client.register("s", '"string"') == ids[-1] + 1, (
            "the id of what was removed is not given again"
        )
        with urllib.request.urlopen(f"{registry.url}/schemas/ids/1") as answer:
            assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def _until(condition: Callable[[], bool]) -> None:
    """Wait for progress."""
    waiting = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        if condition():
            return
        waiting.wait(0.05)
    raise AssertionError("nothing went on")
