"""The parts of the benchmark suite that compute: spreads, ratios, targets, results on disk, the report and its charts."""

from xml.etree import ElementTree

import pytest
from suite import charts, targets
from suite.report import drawn, text, write
from suite.samples import Run, Sample
from suite.samples import load as load_run
from suite.scales import SCALES
from suite.spread import Spread, changed, coarser, ratio, spread

SYSTEMS = {
    "tidelog": {"version": "1", "settings": "defaults"},
    "Apache Kafka": {"version": "4", "settings": "defaults"},
}


def a_run(samples: list[Sample], **more: object) -> Run:
    scale = {"name": "smoke", "rounds": 2, "messages": 10, "messages_alone": 5, "seconds": 1.0}
    return Run("now", scale, {"processor": "one"}, dict(SYSTEMS), {}, samples=samples, **more)  # type: ignore[arg-type]


def rates(
    line: str, case: str, figure: str, ours: list[float], theirs: list[float]
) -> list[Sample]:
    return [
        Sample(line, case, system, number, {figure: value})
        for system, values in (("tidelog", ours), ("Apache Kafka", theirs))
        for number, value in enumerate(values)
    ]


def test_a_spread_is_the_median_and_the_range():
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([3.0, 1.0, 2.0]).share == 0.5  # type: ignore[union-attr]
    assert spread([]) is None


def test_a_ratio_is_taken_within_each_round():
    # A slow second round meets both: the ratio stays what it is.
    found = ratio({0: 100.0, 1: 10.0, 2: 50.0}, {0: 50.0, 1: 5.0})
    assert found == Spread(2.0, 2.0, 2.0)


def test_a_ratio_to_nothing_is_none():
    assert ratio({0: 1.0}, {}) is None
    assert ratio({0: 1.0}, {0: 0.0}) is None


def test_a_coarser_course_tells_the_rate_over_all_of_a_step():
    # A tenth of a second each at 10, then a second at 1: two messages in 1.1 s.
    course = [[1.0, 10.0], [2.0, 1.0], [3.0, 5.0], [4.0, 5.0]]
    assert coarser(course, 2) == [[2.0, pytest.approx(2 / 1.1)], [4.0, 5.0]]
    assert coarser(course[:1], 2) == course[:1]
    assert coarser([], 2) == []


@pytest.mark.parametrize(
    ("now", "before", "word"),
    [
        (Spread(100, 95, 105), Spread(101, 99, 103), "same"),
        (
            Spread(100, 99, 101),
            Spread(104, 103, 105),
            "same",
        ),  # a range of a few rounds is too narrow
        (Spread(150, 149, 151), Spread(100, 99, 101), "up"),
        (Spread(50, 49, 51), Spread(100, 99, 101), "down"),
        (Spread(0, 0, 0), Spread(0, 0, 0), "same"),
    ],
)
def test_a_change_is_one_that_both_spreads_together_do_not_explain(now, before, word):
    assert changed(now, before) == word


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [([200.0], [100.0], "met"), ([150.0], [100.0], "missed by 25%"), ([], [], "not measured")],
)
def test_a_target_that_wants_more(ours, theirs, word):
    target = next(each for each in targets.TARGETS if each.least == 2)
    run = a_run(rates(target.line, target.case, target.figure, ours, theirs))
    assert targets.reached(run, target)[1] == word


@pytest.mark.parametrize(("ours", "word"), [(7.0, "met"), (14.0, "missed by 100%")])
def test_a_target_that_wants_less(ours, word):
    target = next(each for each in targets.TARGETS if each.most == 0.7)
    run = a_run(rates(target.line, target.case, target.figure, [ours], [10.0]))
    assert targets.reached(run, target)[1] == word


def test_a_queue_is_compared_by_the_only_way_that_it_has():
    target = next(each for each in targets.TARGETS if each.than == "RabbitMQ" and each.their_case)
    run = a_run(
        [
            Sample("paper", target.case, "tidelog", 0, {"messages_per_s": 400.0}),
            Sample("paper", target.their_case, "RabbitMQ", 0, {"messages_per_s": 20.0}),
        ]
    )
    assert targets.reached(run, target)[0] == Spread(20.0, 20.0, 20.0)


def test_results_are_read_as_they_were_written(tmp_path):
    run = a_run([Sample("paper", "consume", "tidelog", 0, {"x": 1.5}, [[1.0, 2.0]])])
    run.save(tmp_path / "results.json")
    assert load_run(tmp_path / "results.json") == run
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]


def test_the_report_tells_what_was_measured_and_what_was_not(tmp_path):
    samples = rates("produce", "1 KB", "mb_per_s", [300.0, 330.0], [100.0, 110.0])
    run = a_run(samples)
    run.missing["ActiveMQ"] = "a Java compiler"
    page = text(run)
    assert "| 1 KB | 315 ±5% | 105 ±5% | **3.00** (3.00–3.00) |" in page
    assert (
        "| produce MB/s, 1 KB, librdkafka | Apache Kafka | at least 1.2 × | **3.00** (3.00–3.00) | met |"
        in page
    )
    assert "| ActiveMQ | **not measured**: a Java compiler |" in page
    assert "not measured" in next(line for line in page.splitlines() if line.startswith("| p99"))


def test_every_chart_of_the_report_is_written_and_is_well_formed(tmp_path):
    course = [[float(x), 1000.0 + x] for x in range(10)]
    samples = [
        *rates("produce", "1 KB <b>", "mb_per_s", [300.0], [100.0]),
        Sample(
            "paper", "produce, batch 50, no acks", "tidelog", 0, {"messages_per_s": 1.0}, course
        ),
    ]
    run = a_run(samples)
    write(run, tmp_path / "page.md", tmp_path / "benchmarks")
    page = (tmp_path / "page.md").read_text()
    for name, content in drawn(run).items():
        ElementTree.fromstring(content)
        assert f"(benchmarks/{name}.svg)" in page
        assert (tmp_path / "benchmarks" / f"{name}.svg").read_text() == content
    assert {"figure4", "figure5", "produce"} == set(drawn(run))


def test_a_chart_without_values_says_so():
    assert "nothing was measured" in charts.lines("A title", "MB", "messages/s", {}, {})


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0.00"), (0.421, "0.42"), (35_200, "35.2 k"), (1_234_567, "1.23 M"), (999, "999")],
)
def test_numbers_are_told_as_a_person_says_them(value, said):
    assert charts.short(value) == said


def test_the_full_scale_is_the_paper_s():
    full = SCALES["full"]
    assert (full.messages, full.history_gb[-1], full.backlog_gb) == (10_000_000, 50.0, 10.0)
    assert full.partitions[-1] == 10_000


def test_the_daily_form_tells_what_changed():
    from quick import compared

    before = a_run(rates("produce", "1 KB", "mb_per_s", [100.0, 101.0], []))
    now = a_run(rates("produce", "1 KB", "mb_per_s", [50.0, 51.0], []))
    first, counted = compared(now, before)
    assert first.endswith("before      100 ±  3%    -49.8%   down")
    assert counted == "same 0  up 0  down 1"
    assert compared(now, None) == [first.partition("   before")[0]]


def test_the_daily_form_compares_with_the_last_run_of_its_scale(tmp_path):
    from quick import last_of

    assert last_of("smoke", tmp_path) is None
    for name, scale in (("1", "smoke"), ("2", "smoke"), ("3", "quick")):
        run = a_run([])
        run.scale["name"] = scale
        run.save(tmp_path / f"{name}.json")
    assert last_of("smoke", tmp_path) == tmp_path / "2.json"


@pytest.mark.parametrize(("load", "told"), [("1.90", False), ("9.00", True)])
def test_a_busy_machine_is_told_of(load, told):
    run = a_run([])
    run.machine.update({"processor": "some, 2 cores", "load at the start": load})
    assert ("was busy with other work" in text(run)) is told
