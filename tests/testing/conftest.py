"""The plugin is loaded as a user's pytest loads it: by its entry point, or by name where the install is older than it."""

import itertools
from importlib.metadata import entry_points
from textwrap import dedent

import pytest

from tidelog.testing.fixture import Tidelog
from tidelog.testing.thread_broker import ThreadBroker

INSTALLED = any(each.value == "tidelog.testing.plugin" for each in entry_points(group="pytest11"))
LOAD = () if INSTALLED else ("-p", "tidelog.testing.plugin")
QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")
for _name in ("read_text", "open_text"):  # kafka-python, when it is imported
    QUIET += ("-W", f"ignore:{_name} is deprecated:DeprecationWarning")


@pytest.fixture
def suite(pytester):
    """`suite(source, *options)` runs a test module in a pytest of its own; its outcome."""

    def run(source, *options):
        pytester.makepyfile(dedent(source))  # one module: `suite` is called once a test
        return pytester.runpytest_subprocess(*LOAD, *QUIET, *options)

    return run


@pytest.fixture(scope="session")
def brokers():
    """By class, the broker that the tests of a session share."""
    made = {}
    yield made
    for each in made.values():
        each.close()


@pytest.fixture
def broker(request, brokers):
    """In a thread, unless the test asks for both."""
    kind = getattr(request, "param", ThreadBroker)
    if kind not in brokers:
        brokers[kind] = kind().start()
    return brokers[kind]


_numbers = itertools.count()


@pytest.fixture
def tidelog(broker):
    """What the plugin gives to a test, without a pytest of its own."""
    made = Tidelog(broker, f"{next(_numbers)}")
    yield made
    made.close()
