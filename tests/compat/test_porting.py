"""The programs of the guide's page for people who come from another client: theirs and ours do the same."""

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidelog import Admin, SimpleConsumer

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "porting.md"
CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")


def programs(client: str) -> dict[str, str]:
    """Theirs and ours, by the name in their first line."""
    section = PAGE.read_text().partition(f"## From {client}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", section, re.DOTALL)
    assert [name for name, _ in blocks] == [client, "tidelog"]
    return dict(blocks)


@pytest.mark.filterwarnings("ignore:.*does not implement kafka.serializer:DeprecationWarning")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_the_programs_of_the_guide(
    bootstrap: str,
    unique: Callable[[str], str],
    client: str,
    whose: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, group = unique("orders"), unique("billing")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({topic: 3})
        names: dict[str, Any] = {}
        exec(programs(client)["tidelog" if whose == "ours" else client], names)
        found = names["run"](bootstrap, topic, group)
        if inspect.iscoroutine(found):
            found = asyncio.run(found)
        assert found == list(range(10))  # one key, so one partition, so in order
        assert sum(each.offset for each in admin.group_offsets(group).values()) == 10
        (written,) = (tp for tp, marks in admin.watermarks(topic).items() if marks[1])
    assert "9" in capsys.readouterr().out
    with SimpleConsumer(bootstrap_servers=bootstrap) as reader:
        assert {each.key for each in reader.fetch(*written, 0)} == {b"alice"}
