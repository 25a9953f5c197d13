"""A broker that starts pays only for the messages that its clients use."""

import subprocess
import sys

PROGRAM = """
import sys
import tidelog.protocol.codec, tidelog.protocol.frame
from tidelog.protocol.messages import request_for
request_for(12)
print(*(name.rpartition(".")[2] for name in sys.modules if "protocol.messages." in name))
"""


def test_messages_are_imported_when_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["heartbeat"]
