"""The machine's boot id."""

from tidelog.broker.boot import this_boot


def test_the_machine_has_a_boot_id_that_stays():
    assert this_boot() == this_boot()
