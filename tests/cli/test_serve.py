"""What `tidelog serve` tells its user."""


def test_the_banner_names_our_own_commands(broker):
    log = broker.log()
    assert f"tidelog produce hello -b {broker.bootstrap}" in log
    assert f"tidelog consume hello -b {broker.bootstrap} --from-beginning" in log
