"""The pytest plugin: fixtures with a real broker, for any Kafka client under test.

    def test_greeting(tidelog):
        topic = tidelog.topic("greetings")
        ...

`tidelog` is a `testing.fixture.Tidelog`: a broker that the session shares, and topics and groups of the test's own.
`tidelog_cluster` makes clusters.  Two ini options: `tidelog_broker` is `thread` (the default) or `process`;
`tidelog_settings` has the broker's settings, `name=value` a line.

pytest loads this module in every project that has tidelog installed, so it imports nothing until a fixture is used.
"""

import gc
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.fixture import Tidelog
    from tidelog.testing.fixture_broker import FixtureBroker

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "tidelog_broker",
        "where the broker of the `tidelog` fixture runs: thread or process",
        default="thread",
    )
    parser.addini(
        "tidelog_settings",
        "settings of the broker of the `tidelog` fixture, name=value a line",
        type="linelist",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Have the broker imported as it is.

    pytest rewrites the assertions of the whole package that a plugin comes with; a broker is no test, and is ready sooner,
    and faster, without.  There is no public way to say so; where this one ends, nothing is lost but time.
    """
    marked = getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("tidelog")


@pytest.fixture(scope="session")
def tidelog_broker(pytestconfig: pytest.Config) -> "Iterator[FixtureBroker]":
    """The broker that all tests of the session share; it is started when the first test asks for it."""
    collects = gc.isenabled()
    gc.disable()  # modules are no garbage; looking for some takes a tenth of the time that importing takes
    try:
        broker = _make(pytestconfig.getini("tidelog_broker"), _settings(pytestconfig))
    finally:
        if collects:
            gc.enable()
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture
def tidelog(tidelog_broker: "FixtureBroker", request: pytest.FixtureRequest) -> "Iterator[Tidelog]":
    """A real Kafka-compatible broker with topics and groups of the test's own, and faults to order."""
    from tidelog.testing.fixture import Tidelog

    made = Tidelog(tidelog_broker, f"{request.node.name}-{next(_numbers)}")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def tidelog_cluster(
    pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> "Iterator[Callable[..., Cluster]]":
    """`tidelog_cluster(3)` starts a cluster of three broker processes, which ends with the test.

    Keywords are settings of the brokers, with underscores for dots.
    """
    from tidelog.testing.cluster import Cluster

    made: list[Cluster] = []

    def make(brokers: int = 3, **settings: object) -> Cluster:
        own = {name.replace("_", "."): str(value) for name, value in settings.items()}
        given = {**_settings(pytestconfig), **own}
        cluster = Cluster(brokers, given, f"{request.node.name}-{next(_numbers)}").start()
        made.append(cluster)
        return cluster

    try:
        yield make
    finally:
        for each in made:
            each.close()


def _make(kind: str, settings: dict[str, str]) -> "FixtureBroker":
    if kind == "thread":
        from tidelog.testing.thread_broker import ThreadBroker

        return ThreadBroker(settings)
    if kind == "process":
        from tidelog.testing.child_broker import ChildBroker

        return ChildBroker(settings)
    raise pytest.UsageError(f"tidelog_broker = {kind}: write thread or process")


def _settings(config: pytest.Config) -> dict[str, str]:
    given: dict[str, str] = {}
    for line in config.getini("tidelog_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"tidelog_settings: {line!r} must be written as name=value")
        given[name.strip()] = value.strip()
    return given
