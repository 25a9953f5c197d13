"""`docs/benchmarks.md` and its charts, from a run: everything in them comes from the raw results."""

from collections.abc import Iterable
from pathlib import Path

from suite import lines
from suite.charts import bars, short
from suite.charts import lines as curves
from suite.samples import Run
from suite.spread import Spread, coarser, ratio, spread
from suite.targets import KAFKA, TARGETS, reached

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
CHARTS = ROOT / "docs" / "benchmarks"

# The figure that stands for a case, by line; the first that a sample has.
FIGURES = {
    "messages_per_s": "messages/s",
    "requests_per_s": "requests/s",
    "mb_per_s": "MB/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "p999_ms": "p99.9 ms",
    "ready_ms": "ready, ms",
    "first_ack_ms": "first acknowledgement, ms",
    "start_cpu_s": "processor time of the start, s",
    "idle_mb": "idle, MB",
    "more_mb": "more, MB",
    "memory_mb": "memory, MB",
    "cpu_s_per_gb": "processor s/GB",
    "cpu_us_per_request": "processor µs/request",
    "read_mb_per_s": "read, MB/s",
    "written_mb_per_s": "written, MB/s",
    "produce_requests_per_s": "tiny requests/s",
    "produce_mb_per_s": "produce MB/s",
    "fetch_mb_per_s": "fetch MB/s",
    "client_cpu_us": "client's processor µs/message",
    "rows_per_s": "rows/s",
    "cpu_us_per_row": "Spark's processor µs/row",
}
SHOWN = {
    "footprint": ("first_ack_ms", "start_cpu_s", "idle_mb", "more_mb", "memory_mb"),
    "paper": ("messages_per_s", "cpu_s_per_gb"),
    "produce": ("requests_per_s", "mb_per_s", "p99_ms", "cpu_s_per_gb"),
    "fetch": ("mb_per_s", "p99_ms", "cpu_s_per_gb"),
    "latency": ("p50_ms", "p99_ms", "p999_ms"),
    "backlog": ("read_mb_per_s", "written_mb_per_s"),
    "clients": ("messages_per_s", "client_cpu_us"),
    "replication": ("requests_per_s", "mb_per_s", "cpu_us_per_request"),
    "spark": ("rows_per_s", "cpu_us_per_row"),
    "growth": ("produce_requests_per_s", "produce_mb_per_s", "fetch_mb_per_s", "memory_mb"),
}
# The figures of the paper have these; more would hide them.
DRAWN = ("tidelog", "Apache Kafka", "RabbitMQ", "ActiveMQ", "NATS JetStream")
POINTS = 8
# What the paper tells of its figures, on its machines; it gives no exact figure for its rivals.
PAPER = {
    "produce, batch 1, no acks": "Kafka 50,000; RabbitMQ at most half of it; ActiveMQ orders of magnitude less",
    "produce, batch 50, no acks": "Kafka 400,000",
    "consume": "Kafka 22,000; ActiveMQ and RabbitMQ less than a quarter of it",
}


def write(run: Run, page: Path = PAGE, charts: Path = CHARTS) -> None:
    """Write the page and the charts that it shows."""
    charts.mkdir(parents=True, exist_ok=True)
    for name, content in drawn(run).items():
        (charts / f"{name}.svg").write_text(content)
    page.write_text(text(run))


def text(run: Run) -> str:
    parts = [*_head(run), *_targets(run)]
    for line in lines.ALL:
        if run.of(line.NAME):
            parts += _line(run, line.NAME, line.TITLE, (line.__doc__ or "").strip())
    return "\n".join(parts).rstrip() + "\n"


def drawn(run: Run) -> dict[str, str]:
    """The charts by name."""
    found = {}
    if run.of("paper"):
        found["figure4"] = curves(
            "Figure 4: one producer, messages of 200 bytes",
            "MB",
            "messages/s",
            _courses(run, "produce"),
            {"the paper's Kafka, batch 1": 50_000, "the paper's Kafka, batch 50": 400_000},
        )
        found["figure5"] = curves(
            "Figure 5: one consumer, messages of 200 bytes",
            "MB",
            "messages/s",
            _courses(run, "consume"),
            {"the paper's Kafka": 22_000},
        )
    for line, figure, unit in (
        ("produce", "mb_per_s", "MB/s"),
        ("fetch", "mb_per_s", "MB/s"),
        ("latency", "p99_ms", "p99, ms"),
        ("footprint", "idle_mb", "MB when idle"),
        ("clients", "messages_per_s", "messages/s"),
    ):
        groups = _medians(run, line, figure)
        if groups:
            title = next(each.TITLE for each in lines.ALL if line == each.NAME)
            found[line] = bars(title, unit, groups)
    return found


def _head(run: Run) -> Iterable[str]:
    scale = run.scale
    yield "# Benchmarks"
    yield ""
    yield "This page is written by `benchmarks/compare.py`; do not edit it.  To measure anew, on your own machine: `make bench` "
    yield '(`make bench-report ARGS="--scale small"` in some minutes).  The raw results are in `benchmarks/results/report.json`.'
    yield ""
    yield f"Measured {run.began}, scale **{scale['name']}**, {scale['rounds']} rounds: {scale['messages']:,} messages of the paper's "
    yield f"10,000,000 ({scale['messages_alone']:,} where each travels alone), runs of {scale['seconds']:g} s.  The systems ran one after "
    yield "the other, in every round anew, each with fresh data, driven by the same programs with the same records.  A figure is the median of "
    yield "the rounds, ± half of their range; a ratio is the median of the ratios within a round, with the smallest and the largest."
    yield ""
    if _was_busy(run):
        yield "**The machine was busy with other work in this run.**  Times on the wall say little then, and a system of many threads gets more of such a "
        yield "machine than one that has a single thread, as tidelog's broker has; believe the tables of processor time, and measure again."
        yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in run.machine.items():
        yield f"| {name} | {value} |"
    for name, about in run.systems.items():
        yield f"| {name} | {about['version']}; {about['settings']} |"
    for name, reason in run.missing.items():
        yield f"| {name} | **not measured**: {' '.join(reason.split())[:200]} |"
    yield ""


def _was_busy(run: Run) -> bool:
    """Whether more was running at the start than there are cores."""
    load, processor = run.machine.get("load at the start"), run.machine.get("processor", "")
    cores = processor.rpartition(", ")[2].partition(" ")[0]
    return bool(load and cores.isdigit() and float(load) > float(cores))


def _targets(run: Run) -> Iterable[str]:
    yield "## Targets"
    yield ""
    yield "tidelog through the other, in the same run with the same client.  [Why](decisions/hot-path.md) where one is missed."
    yield ""
    yield "| | compared with | wanted | measured | |"
    yield "|---|---|---|---|---|"
    for target in TARGETS:
        found, word = reached(run, target)
        yield f"| {target.name} | {target.than} | {target.wanted} | {_ratio(found)} | {word} |"
    yield ""


def _line(run: Run, name: str, title: str, about: str) -> Iterable[str]:
    yield f"## {title}"
    yield ""
    yield about
    yield ""
    if name == "paper":
        yield "![figure 4](benchmarks/figure4.svg)"
        yield ""
        yield "![figure 5](benchmarks/figure5.svg)"
        yield ""
        yield from _paper(run)
    elif _has_chart(run, name):
        yield f"![{title}](benchmarks/{name}.svg)"
        yield ""
    if name == "latency":
        for fact, value in run.facts.items():
            yield f"The ceiling ({fact}) was {value:,.0f}."
            yield ""
    for figure in SHOWN[name]:
        yield from _table(run, name, figure)


def _table(run: Run, line: str, figure: str) -> Iterable[str]:
    samples = [each for each in run.of(line) if figure in each.figures]
    if not samples:
        return
    systems = [name for name in run.systems if any(each.system == name for each in samples)]
    cases = list(dict.fromkeys(each.case for each in samples))
    compared = "tidelog" in systems and KAFKA in systems
    yield f"| {FIGURES[figure]} | {' | '.join(systems)} |{' tidelog : Apache Kafka |' if compared else ''}"
    yield f"|---|{'---|' * (len(systems) + compared)}"
    for case in cases:
        cells = [_cell(spread(run.values(line, case, name, figure).values())) for name in systems]
        if compared:
            ours = run.values(line, case, "tidelog", figure)
            cells.append(_ratio(ratio(ours, run.values(line, case, KAFKA, figure))))
        yield f"| {case} | {' | '.join(cells)} |"
    yield ""


def _paper(run: Run) -> Iterable[str]:
    yield "What the paper says of its own machines (two of them, eight cores of 2 GHz and 16 GB each, 1 Gb/s between them, in 2011), in messages a second:"
    yield ""
    for case, said in PAPER.items():
        ours = spread(run.values("paper", case, "tidelog", "messages_per_s").values())
        yield f"- {case}: {said}. Here tidelog {_cell(ours)}."
    yield ""


def _courses(run: Run, what: str) -> dict[tuple[str, str], list[list[float]]]:
    """The course of the first round of each system and case, without acknowledgements as in the paper."""
    return {
        (each.system, _batch(each.case)): coarser(each.timeline, POINTS)
        for each in run.of("paper")
        if each.round == 0
        and each.system in DRAWN
        and each.timeline
        and each.case.startswith(what)
        and "acks=1" not in each.case
    }


def _batch(case: str) -> str:
    return next((name for name in ("batch 50", "batch 1") if name in case), "")


def _medians(run: Run, line: str, figure: str) -> dict[str, dict[str, float]]:
    groups: dict[str, dict[str, float]] = {}
    for each in run.of(line):
        if figure in each.figures:
            found = spread(run.values(line, each.case, each.system, figure).values())
            assert found is not None, "the sample itself is one"
            groups.setdefault(each.case, {})[each.system] = found.median
    return groups


def _has_chart(run: Run, name: str) -> bool:
    return name in drawn(run)


def _cell(found: Spread | None) -> str:
    if found is None:
        return "–"
    return short(found.median) + (f" ±{found.share:.0%}" if found.high > found.low else "")


def _ratio(found: Spread | None) -> str:
    if found is None:
        return "–"
    return f"**{found.median:.2f}** ({found.low:.2f}–{found.high:.2f})"
