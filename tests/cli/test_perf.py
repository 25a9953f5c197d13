"""`tidelog perf`: the lines of Kafka's perf tests, so that scripts which read those read ours."""

import re

import pytest

from tidelog.cli.perf import Window, percentiles

NUMBER = r"\d+(\.\d+)?"
SENT = re.compile(
    rf"(\d+) records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, "
    rf"{NUMBER} ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"


def test_produce_then_consume(cli, topic):
    ran = cli("perf", "produce", topic, "--num-records", 2000, "--record-size", 50).ok()
    found = SENT.fullmatch(ran.lines[-1])
    assert found
    assert found[1] == "2000"
    heads, line = cli("perf", "consume", "--topic", topic, "--messages", 2000).ok().lines
    assert heads.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, ")
    assert re.fullmatch(rf"{DATE}, {DATE}(, {NUMBER}){{8}}", line)
    assert line.split(", ")[2] == f"{2000 * 50 / 1024 / 1024:.4f}"
    assert line.split(", ")[4] == "2000"


def test_consume_gives_up_with_a_warning(cli, topic):
    ran = cli("perf", "consume", topic, "--messages", 1, "--timeout", 300, "--hide-header").ok()
    assert ran.lines[0].startswith("WARNING: Exiting before consuming the expected number")


def test_latency(cli, topic):
    lines = cli("perf", "latency", topic, "-n", 3).ok().lines
    assert re.fullmatch(rf"Avg latency: {NUMBER} ms", lines[-3])
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", lines[-1])


def test_a_failure_is_told(cli, topic):
    ran = cli("perf", "produce", topic, "-n", 1, "-s", 3_000_000)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert cli("perf", "produce", topic, "-n", 0).code == 2


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 6), (0.99, 10)])
def test_percentiles(share, value):
    assert percentiles(range(10, 0, -1), [share]) == [value]


def test_a_window_in_kafkas_words():
    window = Window(0.0, 1024 * 1024, [1, 3])
    assert window.line(1000.0) == (
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 2.0 ms avg latency, 3.0 ms max latency."
    )


def test_figures_for_scripts(cli, topic):
    wrote = cli("perf", "produce", topic, "-n", 50, "-s", 10, "--json").ok().json
    assert (wrote["records"], wrote["bytes"]) == (50, 500)
    assert set(wrote["latency_ms"]) == {"average", "p50", "p95", "p99", "p999", "max"}
    read = cli("perf", "consume", topic, "-n", 50, "--json").ok().json
    assert (read["records"], read["bytes"]) == (50, 500)
    there_and_back = cli("perf", "latency", topic, "-n", 3, "--json").ok().json
    assert there_and_back["messages"] == 3
