"""Settings of the log cleaner, apart from it: a broker reads them at every start, and needs the cleaner later."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, between, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig(Section):
    """Settings of the log cleaner; what a topic may override is in `LogConfig`."""

    enable: bool = setting(
        "log.cleaner.enable",
        True,
        "Whether compacted topics, the internal ones among them, are compacted at all.",
    )
    threads: int = setting(
        "log.cleaner.threads",
        1,
        "Logs that are compacted at the same time, each by a process of its own.",
        check=at_least(0),
        dynamic=True,
    )
    dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        128 << 20,
        "Most memory for the map of keys, over all threads; taken as far as needed. 24 bytes hold a key.",
        check=at_least(1024),
        dynamic=True,
    )
    dedupe_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full the map of keys may become before a pass ends and another one follows.",
        check=between(0.1, 0.99),
        dynamic=True,
    )
    io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size",
        512 << 10,
        "Memory for reading and writing segments, over all threads.",
        check=at_least(0),
        dynamic=True,
    )
    io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "Most that the cleaner reads and writes on average, over all threads.",
        check=at_least(1),
        dynamic=True,
    )
    backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15_000,
        "Wait before looking again when no log needed cleaning.",
        check=at_least(0),
        dynamic=True,
    )
