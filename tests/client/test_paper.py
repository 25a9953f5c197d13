"""The two code samples of the Kafka paper (NetDB 2011, section 2), nearly word for word, as the guide shows them."""

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "clients.md"


def test_the_samples_of_the_paper(bootstrap: str, topic: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (sample,) = (each for each in blocks if "# Sample producer code" in each)
    here = sample.replace("127.0.0.1:9092", bootstrap).replace("topic1", topic)
    # The stream never ends, and the test must.
    here, changed = re.subn(r"print\(payload\).*", "break", here)
    assert changed == 1
    names: dict[str, Any] = {}
    exec(here, names)
    names["consumer"].close()
    assert names["payload"] == b"test message str"
