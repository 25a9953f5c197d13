"""Our consumers while members, brokers and topics come and go; TIDELOG_CONSUMER_SECONDS says for how long."""

import os

import pytest

from tests.faults import consumers

pytestmark = pytest.mark.faults


def test_every_record_comes_and_nothing_is_committed_before_it_is_done() -> None:
    report = consumers.run(float(os.environ.get("TIDELOG_CONSUMER_SECONDS", "8")), seed=1)
    assert not report["violations"], report
    assert not any(report["not delivered"].values()), report
    assert report["acknowledged"] > 0, report
