"""kcat (librdkafka 2.0 in Debian): no administration, no timestamps of its own, one header set a call."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from peers.base import PATIENCE_S, Member, Message, Peer

_REBALANCE = re.compile(r"% Group .* rebalanced .*: (assigned|revoked): (.*)")


class Kcat(Peer):
    name = "kcat"
    can = frozenset({"headers", "idempotence"})

    @classmethod
    def why_absent(cls) -> str | None:
        return None if shutil.which("kcat") else "kcat is not installed; see scripts/peers.sh"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> None:
        def how(message: Message) -> tuple[Any, ...]:
            return message.partition, message.key is None, message.headers

        for (partition, keyless, headers), some in itertools.groupby(messages, how):
            options = ["-P", "-t", topic, "-X", "acks=all"]
            options += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
            options += [] if compression == "none" else ["-z", compression]
            options += [] if partition is None else ["-p", str(partition)]
            options += [] if keyless else ["-K", "\t"]
            for name, value in headers:
                options += ["-H", f"{name}={value.decode()}"]
            lines = [
                (b"" if keyless else (each.key or b"") + b"\t") + (each.value or b"")
                for each in some
            ]
            self._run(*options, stdin=b"\n".join(lines))

    def consume(self, topic: str, partition: int, count: int) -> list[Message]:
        return self._read(topic, partition, "beginning", count)

    def consume_from(
        self, topic: str, partition: int, timestamp_ms: int, count: int
    ) -> list[Message]:
        return self._read(topic, partition, f"s@{timestamp_ms}", count)

    def member(self, group: str, topic: str) -> Member:
        return _Member(self.bootstrap, group, topic)

    def topics(self) -> set[str]:
        listing = json.loads(self._run("-L", "-J"))
        return {topic["topic"] for topic in listing["topics"]}

    def _read(self, topic: str, partition: int, start: str, count: int) -> list[Message]:
        options = [
            "-C",
            "-J",
            "-q",
            "-t",
            topic,
            "-p",
            str(partition),
            "-o",
            start,
            "-c",
            str(count),
        ]
        return [_message(json.loads(line)) for line in self._run(*options).splitlines()]

    def _run(self, *options: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            ["kcat", "-b", self.bootstrap, *options],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


class _Member(Member):
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        options = ["-J", "-u", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000"]
        options += ["-X", "heartbeat.interval.ms=500"]
        self.child = subprocess.Popen(
            ["kcat", "-b", bootstrap, "-G", group, *options, topic],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        super().__init__()

    def close(self) -> None:
        self.child.terminate()  # it commits what it has printed, and leaves
        super().close()

    def _run(self) -> None:
        assert self.child.stdout is not None
        with self.child, self.child.stdout as lines:
            for line in lines:
                if line.startswith(b"{"):
                    self._see([_message(json.loads(line))])
                elif found := _REBALANCE.match(line.decode(errors="replace")):
                    named = re.findall(r"\[(\d+)\]", found[2]) if found[1] == "assigned" else ()
                    self._own([int(each) for each in named])


def _message(found: dict[str, Any]) -> Message:
    headers = found.get("headers", [])
    return Message(
        value=None if found["payload"] is None else found["payload"].encode(),
        key=None if found["key"] is None else found["key"].encode(),
        headers=tuple(
            (name, value.encode()) for name, value in zip(headers[::2], headers[1::2], strict=True)
        ),
        timestamp_ms=found["ts"],
        partition=found["partition"],
        offset=found["offset"],
    )
