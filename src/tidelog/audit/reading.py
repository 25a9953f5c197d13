"""Reads the audit topic of a cluster into a ledger, and goes on from there."""

import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidelog.audit.encoding import NoAuditEvent, read_event
from tidelog.audit.events import TOPIC
from tidelog.audit.ledger import Ledger
from tidelog.client.admin import Admin
from tidelog.client.blocking_consumer import Consumer
from tidelog.client.times import parse_time
from tidelog.names import TopicPartition

_log = logging.getLogger(__name__)

_END = -1
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


class AuditReader:
    """What has been published so far, again and again; blocking."""

    def __init__(self, config: Mapping[str, Any], ledger: Ledger) -> None:
        given = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**config, **given})
        self._config = dict(config)
        self.ledger = ledger
        self._places: list[TopicPartition] = []

    def catch_up(self) -> None:
        """Read up to where the topic ends now."""
        if not self._places:
            with Admin(self._config) as admin:
                if TOPIC not in admin.list_topics(internal=True):
                    return  # nobody has counted anything
                self._places = list(admin.watermarks(TOPIC))
            self._consumer.assign(self._places)
        ends = self._consumer.find_offsets(dict.fromkeys(self._places, _END))
        behind = True
        while behind:
            for message in self._consumer.poll(max_records=5_000, timeout=0.2):
                self._take(message.value)
            behind = any(self._consumer.position(*tp) < ends[tp].offset for tp in self._places)

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> "AuditReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, value: bytes | None) -> None:
        try:
            self.ledger.add(read_event(value))
        except NoAuditEvent as error:
            _log.warning("%s", error)


def moment(text: str, now_ms: int) -> int:
    """A time as people type it: `12:00` is today's, `10m` ago, or ISO 8601."""
    if _CLOCK.fullmatch(text.strip()):
        today = datetime.fromtimestamp(now_ms / 1000).date()  # noqa: DTZ006 - local, as people mean it
        text = f"{today.isoformat()}T{text.strip():0>5}"
    return parse_time(text, now_ms)
