"""Transactions after a crash: what had ended before it stays ended."""

import pytest


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_had_ended_is_stable_after_recovery(bench, commit):
    log = bench.open()
    bench.append(log, [b"a"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    bench.marker(log, 7, commit=commit)
    log.close(clean=False)
    log = bench.open()
    assert log.last_stable_offset == log.log_end_offset == 2
    assert log.aborted_transactions(0, 2) == ([] if commit else [(7, 0)])


def test_a_transaction_that_was_open_is_open_after_recovery(bench):
    log = bench.open()
    bench.append(log, [b"a"])
    bench.append(log, [b"b"], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.close(clean=False)
    log = bench.open()
    assert log.last_stable_offset == 1
    bench.marker(log, 7, commit=True)
    assert log.last_stable_offset == 3
