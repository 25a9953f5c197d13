"""The OpenAPI document, and schemathesis over it: whatever fits the document is answered as the document says."""

import asyncio
import itertools
import json

import pytest
import schemathesis
from consoles import Console
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tidelog import Admin, TopicPartition
from tidelog.console.app import application
from tidelog.console.sessions import Sessions

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 12
KNOWN = {"topic": "known-topic", "group": "known-group", "broker": 0}
ENDLESS = "/topics/{topic}/tail"  # a stream: test_tail.py


async def make_document() -> dict:
    sessions = Sessions({"bootstrap.servers": "127.0.0.1:1"}, None)
    app = application(sessions)._application
    await sessions.close()
    return app.openapi()


DOCUMENT = asyncio.run(make_document())
OPERATIONS = [
    (method, path)
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if not path.endswith(ENDLESS)
]


def test_the_document_is_served(console: Console):
    told = console.raw("GET", "/api/v1/openapi.json").body
    assert told == json.loads(json.dumps(DOCUMENT))
    assert "/api/v1/topics/{topic}/messages" in told["paths"]


def test_every_operation_says_what_it_does():
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), (method, path)


@pytest.fixture(scope="module", autouse=True)
def known(admin: Admin) -> None:
    admin.create_topics({KNOWN["topic"]: 2})
    admin.alter_group_offsets(KNOWN["group"], {TopicPartition(KNOWN["topic"], 0): 0})


# The console runs in a thread beside it, and its clients use `random` for their pauses.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_any_request_is_answered_as_documented(console: Console, method: str, path: str):
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    operation = schema[path][method.upper()]

    turns = itertools.count()

    @seed(7)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: schemathesis.Case) -> None:
        for name, there in KNOWN.items():
            # Random names are rarely there; every other time one is that is.
            if name in case.path_parameters and next(turns) % 2:
                case.path_parameters[name] = there
        for name in ("partitions", "total"):  # ten thousand partitions would be granted
            if isinstance(case.body, dict) and isinstance(case.body.get(name), int):
                case.body[name] = min(case.body[name], 3)
        case.call_and_validate(base_url=console.url, checks=CHECKS, timeout=120)

    ask()
