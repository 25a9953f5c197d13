"""`tidelog peek TOPIC`: the last messages, or the last that pass a test, for eyes."""

import argparse
import time
from collections import deque
from typing import TYPE_CHECKING

from tidelog.cli._export import open_export
from tidelog.cli._options import add_client_options, add_topics, some_topics
from tidelog.cli._progress import Progress
from tidelog.cli._readable import readable
from tidelog.cli._reading import (
    EARLIEST,
    LATEST,
    POLL_RECORDS,
    POLL_S,
    offsets_at,
    partitions_of,
    start_reading,
)
from tidelog.cli._times import parse_time
from tidelog.cli.search import add_search_options, consumer_config
from tidelog.client.filters import message_filter

if TYPE_CHECKING:
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.message import Message

HELP = "show the last messages, or the last that pass a test"
EXAMPLE = """examples:
  tidelog peek orders -n 3
  tidelog peek orders --where value.customer=42 --where 'time>=1h'
  tidelog peek orders --where 'value~refused' --format csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_topics(parser)
    add_client_options(parser)
    parser.add_argument(
        "-n", "--max-messages", type=int, default=10, metavar="N", help="how many (10)"
    )
    add_search_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from tidelog.client.blocking_consumer import Consumer

    config = consumer_config(arguments)
    show = readable if arguments.format is None and arguments.output is None else None
    with Consumer(config) as consumer:
        found = _last(consumer, config, arguments)
    with open_export(arguments.format or "", arguments.output, show) as export:
        export.write(found)
    return 0


def _last(
    consumer: "Consumer", config: dict[str, str], arguments: argparse.Namespace
) -> "list[Message]":
    """The messages by time, then by place."""
    now_ms = int(time.time() * 1000)
    fits = message_filter(arguments.where or (), now_ms)
    wanted = partitions_of(config, some_topics(arguments), arguments.partition)
    ends = offsets_at(consumer, wanted, LATEST)
    if arguments.since:
        found = offsets_at(consumer, wanted, parse_time(arguments.since, now_ms))
        starts = {tp: at if at >= 0 else ends[tp] for tp, at in found.items()}
    else:
        starts = offsets_at(consumer, wanted, EARLIEST)
    if not arguments.where:
        starts = {tp: max(at, ends[tp] - arguments.max_messages) for tp, at in starts.items()}
    ended = start_reading(consumer, starts, ends)
    kept = {tp: deque["Message"](maxlen=arguments.max_messages) for tp in wanted}
    seen = 0
    with Progress(sum(ends[tp] - starts[tp] for tp in wanted)) as progress:
        while not ended(False):
            for each in consumer.poll(max_records=POLL_RECORDS, timeout=POLL_S):
                seen += 1
                if fits(each):
                    kept[each.topic_partition].append(each)
            progress.update(seen)
    everything = [each for some in kept.values() for each in some]
    everything.sort(key=lambda each: (each.timestamp, each.topic, each.partition, each.offset))
    return everything[-arguments.max_messages :]
