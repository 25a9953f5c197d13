"""The targets, as ratios between two systems in one run, and how far they are met."""

from dataclasses import dataclass

from suite.samples import Run
from suite.spread import Spread, ratio

KAFKA = "Apache Kafka"


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    line: str
    case: str
    figure: str
    than: str
    """The system that tidelog is compared with."""
    least: float = 0.0
    """The ratio that is wanted at least; 0 where less is better."""
    most: float = 0.0
    """The ratio that is wanted at most; 0 where more is better."""
    their_case: str = ""
    """Where it differs: queues have no batches."""

    @property
    def wanted(self) -> str:
        return f"at least {self.least:g} ×" if self.least else f"at most {self.most:.2g} ×"


TARGETS = (
    Target("requests/s, a message each, librdkafka", "paper", "produce, batch 1, acks=1", "messages_per_s", KAFKA, least=2),
    Target("requests/s, tiny, pipelined, raw", "produce", "raw, tiny, pipelined", "requests_per_s", KAFKA, least=2),
    Target("produce MB/s, 1 KB, librdkafka", "produce", "1 KB", "mb_per_s", KAFKA, least=1.2),
    Target("produce MB/s, 64 KB batches, raw", "produce", "raw, 64 KB", "mb_per_s", KAFKA, least=1.2),
    Target("fetch MB/s, librdkafka", "fetch", "librdkafka, page cache", "mb_per_s", KAFKA, least=1.0),
    Target("fetch MB/s, 1 MB, 8 consumers, raw", "fetch", "raw, 1 MB, 8 consumers", "mb_per_s", KAFKA, least=1.0),
    Target("p99 latency at 20 % load", "latency", "20 % load", "p99_ms", KAFKA, most=0.7),
    Target("start to the first acknowledgement", "footprint", "fresh", "first_ack_ms", KAFKA, most=1 / 8),
    Target("idle memory", "footprint", "fresh", "idle_mb", KAFKA, most=1 / 6),
    *(
        Target(
            f"the paper's producer, batch 50 ({acks})", "paper", f"produce, batch 50, {acks}",
            "messages_per_s", queue, least=10, their_case=f"produce, batch 1, {acks}",
        )
        for queue in ("RabbitMQ", "ActiveMQ")
        for acks in ("no acks", "acks=1")
    ),
    *(
        Target("the paper's consumer", "paper", "consume", "messages_per_s", queue, least=4)
        for queue in ("RabbitMQ", "ActiveMQ")
    ),
)  # fmt: skip


def reached(run: Run, target: Target) -> tuple[Spread | None, str]:
    """The ratio, and a word: `met`, `missed by 12 %`, or `not measured`."""
    ours = run.values(target.line, target.case, "tidelog", target.figure)
    theirs = run.values(target.line, target.their_case or target.case, target.than, target.figure)
    found = ratio(ours, theirs)
    if found is None:
        return None, "not measured"
    if target.least:
        short_by = 1 - found.median / target.least
    else:
        short_by = found.median / target.most - 1
    return found, "met" if short_by <= 0 else f"missed by {short_by:.0%}"
