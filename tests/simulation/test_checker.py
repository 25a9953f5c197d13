"""Every check fires on the history that breaks its promise, and on no other."""

from collections.abc import Callable

import pytest

from tidelog.names import TopicPartition
from tidelog.testing.simulation.checker import violations
from tidelog.testing.simulation.group_checker import groups_are_at_the_end
from tidelog.testing.simulation.history import (
    Batch,
    Commit,
    Committed,
    History,
    Place,
    Polled,
    Told,
    Transaction,
)

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
X0 = TopicPartition("x", 0)
NEVER = float("inf")


def polled(*rows: tuple[int, str | None], tp: TopicPartition = T0) -> list[Polled]:
    return [Polled(1.0, tp, offset, value) for offset, value in rows]


def good() -> History:
    """Four acknowledged values, seen by a group; a transaction committed and one aborted; all of it copied."""
    history = History(groups_at_end=True)
    history.final = {T0: [(0, "p-0"), (1, "p-1"), (3, "p-3")], T1: [(0, "p-2")]}
    history.acknowledged = {
        "p-0": Place(T0, 0),
        "p-1": Place(T0, 1),
        "p-2": Place(T1, 0),
        "p-3": Place(T0, 3),
    }
    history.polls = {
        "c0.1": [
            *polled((-1, None), (0, "p-0"), (1, "p-1")),
            *polled((-1, None), (0, "p-0"), (1, "p-1"), (3, "p-3")),
            *polled((0, "p-2"), tp=T1),
        ]
    }
    history.transactions = [
        Transaction(("x-0", "x-1"), "committed"),
        Transaction(("x-2",), "aborted"),
        Transaction(("x-3", "x-4"), "unknown"),
    ]
    history.committed_polls = {"the last reader": polled((0, "x-0"), (1, "x-1"), tp=X0)}
    history.acknowledged_at = {"p-0": 0.5, "p-1": 0.6, "p-2": 0.7, "p-3": 2.5}
    history.ends = {
        "w0": [Told(1.0, T0, 2, 0.9), Told(2.0, T0, 2, 1.5), Told(3.0, T0, 4, 2.4)],
    }
    history.batches = {"w0": [Batch(T0, 0, 0), Batch(T0, 1, 0), Batch(T0, 3, 2), Batch(T0, 1, 0)]}
    history.groups = {"g": "c", "l": "l"}
    history.commits = [
        Commit("g", T0, 2, 1.1, 1.2),
        Commit("g", T0, 2, 1.2, NEVER),
        Commit("g", T0, 4, 2.0, 2.1),
        Commit("l", T1, 1, 1.1, 1.2),
    ]
    history.committed = [
        Committed("g", T0, -1, 1.0, 1.1),
        Committed("g", T0, 2, 1.3, 1.4),
        Committed("g", T0, 4, 2.0, 2.1),
        Committed("g", T0, 2, 3.0, 3.1),
    ]
    history.copied = ["p-0", "p-1", "p-2", "p-3"]
    values = [value for rows in history.final.values() for _, value in rows]
    history.sent = dict.fromkeys([*values, "x-0", "x-1", "x-2", "x-3", "x-4"])
    return history


def test_a_good_history_breaks_no_promise():
    assert violations(good()) == []


def lose(history: History) -> None:
    del history.final[T0][1]


def hide(history: History) -> None:
    history.polls["c0.1"] = [each for each in history.polls["c0.1"] if each.value != "p-2"]


def rewrite(history: History) -> None:
    history.polls["c1.1"] = polled((1, "p-3"))


def repeat(history: History) -> None:
    history.final[T1].append((1, "p-2"))


def reorder(history: History) -> None:
    history.final[T0] += [(4, "p-9"), (5, "p-8")]
    history.sent.update({"p-9": None, "p-8": None})


def show_aborted(history: History) -> None:
    history.committed_polls["r0.1"] = polled((2, "x-2"), tp=X0)


def tear(history: History) -> None:
    history.committed_polls["the last reader"].append(Polled(1.0, X0, 4, "x-3"))


def lose_transaction(history: History) -> None:
    history.committed_polls["the last reader"].clear()


def skip(history: History) -> None:
    history.polls["c1.1"] = polled((0, "p-0"), (3, "p-3"))


def go_back(history: History) -> None:
    history.polls["c1.1"] = polled((0, "p-0"), (1, "p-1"), (1, "p-1"))


def shorten(history: History) -> None:
    history.ends["w0"].append(Told(4.0, T0, 3))


def copy_twice(history: History) -> None:
    assert history.copied is not None
    history.copied.append("p-0")


def copy_not(history: History) -> None:
    assert history.copied is not None
    history.copied.remove("p-0")


def invent(history: History) -> None:
    history.polls["c1.1"] = polled((7, "q-7"))


def show_and_lose(history: History) -> None:
    history.polls["w0 (reader)"] = polled((4, "p-4"))
    history.sent["p-4"] = None


def tell_an_old_end(history: History) -> None:
    history.ends["w1"] = [Told(3.0, T0, 3, 2.6)]


def write_in_an_old_epoch(history: History) -> None:
    history.batches["w0"].append(Batch(T0, 4, 1))


def change_an_epoch(history: History) -> None:
    history.batches["w1"] = [Batch(T0, 1, 1)]


def forget_an_offset(history: History) -> None:
    history.committed.append(Committed("g", T0, -1, 1.3, 1.4))


def take_an_offset_back(history: History) -> None:
    del history.commits[1]


def invent_an_offset(history: History) -> None:
    history.committed.append(Committed("l", T0, 3, 1.3, 1.4))


def commit_too_much(history: History) -> None:
    history.commits.append(Commit("g", T0, 4, 0.5, NEVER))


def skip_in_the_late_group(history: History) -> None:
    history.commits.append(Commit("l", T0, 1, 1.1, 1.2))


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lose, "lost write"),
        (hide, "unseen write"),
        (rewrite, "two values at one offset"),
        (repeat, "duplicate"),
        (reorder, "reordered"),
        (show_aborted, "aborted read"),
        (tear, "torn transaction"),
        (lose_transaction, "lost transaction"),
        (skip, "skipped poll"),
        (go_back, "backward poll"),
        (shorten, "end went back"),
        (copy_twice, "copied twice"),
        (copy_not, "not copied"),
        (invent, "value from nowhere"),
        (show_and_lose, "lost after reading"),
        (tell_an_old_end, "stale end"),
        (write_in_an_old_epoch, "epoch went back"),
        (change_an_epoch, "two epochs at one offset"),
        (forget_an_offset, "lost offset"),
        (take_an_offset_back, "lost offset"),
        (invent_an_offset, "offset from nowhere"),
        (commit_too_much, "committed past the unread"),
        (skip_in_the_late_group, "skipped by its group"),
    ],
)
def test_each_harm_is_noticed(harm: Callable[[History], None], complaint: str):
    history = good()
    harm(history)
    assert any(line.startswith(complaint) for line in violations(history)), violations(history)


def at_the_end() -> History:
    """Both groups have a place in both partitions, and have read everything since."""
    history = good()
    history.commits += [Commit("g", T1, 1, 1.1, 1.2), Commit("l", T0, 4, 3.0, 3.1)]
    return history


def test_groups_are_at_the_end_when_they_have_a_place_everywhere_and_read_on_from_it():
    history = at_the_end()
    assert groups_are_at_the_end(history)
    skip_in_the_late_group(history)
    assert not groups_are_at_the_end(history)


@pytest.mark.parametrize("ended", [None, NEVER], ids=["not asked for", "not acknowledged"])
def test_a_group_without_a_place_is_not_at_the_end(ended: float | None):
    """What it commits when it closes would be its first, and everything after that be unread."""
    history = at_the_end()
    last = history.commits.pop()
    if ended is not None:
        history.commits.append(last._replace(ended=ended))
    assert not groups_are_at_the_end(history)


def test_many_of_a_kind_are_counted():
    history = good()
    history.final = {T0: []}
    history.polls = {}
    history.acknowledged = {f"p-{each}": Place(T0, each) for each in range(20)}
    history.sent = dict.fromkeys(history.acknowledged)
    history.copied = None
    assert "… and 15 more of the last kind" in violations(history)


def test_a_weak_write_may_be_lost_twice_and_late_until_it_is_read():
    history = good()
    history.weakly = {"a-7": Place(T0, 9)}
    history.final[T0] += [(4, "a-3"), (5, "a-2"), (6, "a-2")]
    history.sent |= dict.fromkeys(("a-2", "a-3", "a-7"))
    history.polls["c0.1"] += polled((4, "a-3"), (5, "a-2"), (6, "a-2"))
    assert history.copied is not None
    history.copied += ["a-2", "a-3"]
    assert violations(history) == []
    history.polls["w0 (reader)"] = polled((9, "a-7"))
    assert any(line.startswith("lost after reading") for line in violations(history))


def test_with_unclean_elections_writes_may_be_lost_but_not_be_there_twice():
    history = good()
    lose(history)
    tell_an_old_end(history)
    assert violations(history, unclean=True) == []
    repeat(history)
    assert any(line.startswith("duplicate") for line in violations(history, unclean=True))
