"""The text that Prometheus reads: ours and its own library's are read as the same."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from scraping import Scraped

from tidelog.broker.metrics.families import Found, Row, counter, gauge, histogram, summary_ms
from tidelog.broker.metrics.sources import families, sources
from tidelog.broker.metrics.text import render
from tidelog.measures import Durations, Histogram

NASTY = ["plain", 'a"b', "back\\slash", "line\nbreak", "ümläut", "", " "]


def read(*found: Found) -> Scraped:
    return Scraped(b"".join(render(found)).decode())


@pytest.mark.parametrize("many", [False, True])
def test_labels_and_values_come_out_as_they_went_in(many):
    values = [0, 1, -1, 12345678901234, 0.1, 1e-9, float("inf")]
    family = gauge("tidelog_test", "Help with \\ and\nbreaks.", "who", "number", many=many)
    rows = [((name, str(i)), value) for name in NASTY for i, value in enumerate(values)]
    found = read(family.rows(rows))
    assert len(found) == len(rows)
    for (name, number), value in rows:
        assert found.of("tidelog_test", who=name, number=number) == value
    assert found.helps == {"tidelog_test": "Help with \\ and\nbreaks."}


@pytest.mark.parametrize("many", [False, True])
def test_counters_keep_their_name(many):
    family = counter("tidelog_test_total", "Help.", "of", many=many)
    found = read(family.rows([(("a",), 3)]))
    assert found.of("tidelog_test_total", of="a") == 3
    assert "# TYPE tidelog_test_total counter\n" in found.text
    assert found.names == {"tidelog_test_total"}


def test_a_family_without_rows_still_says_what_it_is():
    found = read(gauge("tidelog_none", "Nothing.", "of", many=True).rows([]))
    assert "# HELP tidelog_none Nothing.\n# TYPE tidelog_none gauge\n" in found.text


def test_summaries_tell_milliseconds_and_how_many_there_were():
    durations = Durations()
    for _ in range(4):
        durations.add(0.25)
    family = summary_ms("tidelog_timems", "Help.", "of")
    found = read(Found(family, [Row(("a",), durations, 1000)]))
    assert found.of("tidelog_timems", of="a", quantile="0.99") == 250
    assert found.of("tidelog_timems_count", of="a") == 1000
    assert found.of("tidelog_timems_sum", of="a") == 1000


def test_histograms():
    counts = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.5, 5.0):
        counts.add(seconds)
    found = read(histogram("tidelog_lag_seconds", "Help.").value(counts))
    assert found.of("tidelog_lag_seconds_bucket", le="0.1") == 1
    assert found.of("tidelog_lag_seconds_bucket", le="1.0") == 2
    assert found.of("tidelog_lag_seconds_bucket", le="+Inf") == 3
    assert found["tidelog_lag_seconds_count"] == 3


def test_thousands_of_rows_come_in_pieces():
    family = gauge("tidelog_many", "Help.", "of", many=True)
    pieces = list(render([family.rows(((str(i),), i) for i in range(10_000))]))
    assert len(pieces) > 20
    assert max(map(len, pieces)) < 20_000


def test_names_are_told_once_and_have_a_unit_or_a_meaning():
    declared = [each for source in sources() for each in families(source)]
    names = [each.name for each in declared]
    assert len(names) == len(set(names)) > 80
    for each in declared:
        assert each.help.endswith("."), each.name
        assert each.name.startswith(("kafka_", "tidelog_", "process_")), each.name
        assert (each.kind == "counter") == each.name.endswith("_total"), each.name
        assert (each.kind == "summary") == each.name.endswith("timems"), each.name
