"""One broker, one registry and a console over both, for all tests of a run; each test has topics of its own."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `consoles`

from consoles import Console

from tidelog import Admin
from tidelog.schemas.local_registry import LocalRegistry
from tidelog.testing.local_broker import LocalBroker

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
SECURED = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.plain.users": "admin:keep-it-secret,alice:wonderland",
    "authorizer.class.name": "acls",
    "super.users": "User:admin",
    **SETTINGS,
}

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SETTINGS, start_timeout_s=120.0) as made:
        yield made
        assert "Traceback" not in made.log(), made.log()


@pytest.fixture(scope="session")
def registry(broker: LocalBroker) -> Iterator[LocalRegistry]:
    with LocalRegistry(broker.bootstrap, start_timeout_s=120.0) as made:
        yield made


@pytest.fixture(scope="session")
def console(broker: LocalBroker, registry: LocalRegistry) -> Iterator[Console]:
    config = {"bootstrap.servers": broker.bootstrap}
    with Console(config, registry_url=registry.url) as made:
        yield made


@pytest.fixture(scope="session")
def read_only(broker: LocalBroker) -> Iterator[Console]:
    with Console({"bootstrap.servers": broker.bootstrap}, read_only=True) as made:
        yield made


@pytest.fixture(scope="session")
def secured_broker() -> Iterator[LocalBroker]:
    with LocalBroker(settings=SECURED, protocol="SASL_PLAINTEXT", start_timeout_s=120.0) as made:
        yield made
        assert "keep-it-secret" not in made.log()
        assert "wonderland" not in made.log()


@pytest.fixture
def secured(secured_broker: LocalBroker) -> Iterator[Console]:
    config = {
        "bootstrap.servers": secured_broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
    }
    with Console(config) as made:
        yield made


@pytest.fixture(scope="session")
def admin(broker: LocalBroker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as made:
        yield made


@pytest.fixture
def topic(admin: Admin) -> Callable[..., str]:
    """Makes a topic."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(_NUMBERS)}"
        given = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics({name: partitions}, configs=given)
        return name

    return make
