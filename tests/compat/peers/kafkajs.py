"""KafkaJS, through `kafkajs/peer.js`: one call a node process, JSON in and out."""

import json
import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peers.base import PATIENCE_S, Member, Message, Peer

_SCRIPT = Path(__file__).parents[1] / "kafkajs" / "peer.js"
_MODULES = Path(__file__).parents[3] / ".peers" / "node_modules"


class KafkaJS(Peer):
    name = "KafkaJS"
    codecs = ("none", "gzip")  # the others are plug-ins by third parties

    @classmethod
    def why_absent(cls) -> str | None:
        if shutil.which("node") and (_MODULES / "kafkajs").is_dir():
            return None
        return "node or KafkaJS is not installed; see scripts/peers.sh"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        idempotent: bool = False,
    ) -> None:
        self._call(
            "produce",
            topic=topic,
            messages=[_to_json(each) for each in messages],
            compression=compression,
            idempotent=idempotent,
        )

    def consume(self, topic: str, partition: int, count: int) -> list[Message]:
        found = self._call("consume", topic=topic, partition=partition, count=count)
        return [_from_json(each) for each in found]

    def consume_from(
        self, topic: str, partition: int, timestamp_ms: int, count: int
    ) -> list[Message]:
        found = self._call(
            "consume", topic=topic, partition=partition, count=count, since=timestamp_ms
        )
        return [_from_json(each) for each in found]

    def member(self, group: str, topic: str) -> Member:
        return _Member(_start(self.bootstrap, "member", {"group": group, "topic": topic}))

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        self._call("createTopic", topic=topic, partitions=partitions, configs=dict(configs or {}))

    def delete_topic(self, topic: str) -> None:
        self._call("deleteTopic", topic=topic)

    def topics(self) -> set[str]:
        return set(self._call("topics"))

    def topic_configs(self, topic: str) -> dict[str, str]:
        return dict(self._call("topicConfigs", topic=topic))

    def alter_topic_config(self, topic: str, name: str, value: str) -> None:
        self._call("alterTopicConfig", topic=topic, name=name, value=value)

    def _call(self, operation: str, **arguments: object) -> Any:
        child = _start(self.bootstrap, operation, arguments)
        with child:
            try:
                output, errors = child.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                raise AssertionError(f"KafkaJS: {operation} did not end") from None
        assert child.returncode == 0, errors.decode()
        return json.loads(output)


class _Member(Member):
    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        super().__init__()

    def close(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()  # the script commits, leaves and ends
        super().close()

    def _run(self) -> None:
        assert self.child.stdout is not None
        with self.child:
            for line in self.child.stdout:
                event = json.loads(line)
                if "partitions" in event:
                    self._own(event["partitions"])
                else:
                    self._see([_from_json(event["message"])])
            assert self.child.stderr is not None
            errors = self.child.stderr.read().decode()
        assert self.child.returncode == 0, errors


def _start(bootstrap: str, operation: str, arguments: object) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        ["node", str(_SCRIPT), bootstrap, operation],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NODE_PATH": str(_MODULES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
    )
    assert child.stdin is not None
    child.stdin.write(json.dumps(arguments).encode() + b"\n")
    child.stdin.flush()
    return child


def _to_json(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {
        "value": _encode(message.value),
        "key": _encode(message.key),
        "headers": {name: _encode(value) for name, value in message.headers},
    }
    if message.partition is not None:
        found["partition"] = message.partition
    if message.timestamp_ms is not None:
        found["timestamp"] = str(message.timestamp_ms)
    return found


def _from_json(found: dict[str, Any]) -> Message:
    return Message(
        value=_decode(found["value"]),
        key=_decode(found["key"]),
        headers=tuple((name, _decode(value) or b"") for name, value in found["headers"].items()),
        timestamp_ms=int(found["timestamp"]),
        partition=found["partition"],
        offset=int(found["offset"]),
    )


def _encode(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
