import pytest

from tidelog.broker.descriptors import share_of


@pytest.mark.parametrize("limit", [0, 64, 256, 1024, 4096, 65_536, 1 << 20])
def test_nobody_takes_what_the_other_needs(limit: int) -> None:
    share = share_of(limit)
    assert share.segments >= 1
    assert share.connections >= 1
    assert sum(share) <= max(limit - 100, 2)


def test_many_descriptors_are_for_connections() -> None:
    assert share_of(1 << 20) == (4096, (1 << 20) - 100 - 4096)
