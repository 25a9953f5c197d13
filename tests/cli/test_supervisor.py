"""Several brokers from one command line: ids, ports, directories."""

import pytest

from tidelog.broker.settings import BrokerSettings
from tidelog.cli._supervisor import plans
from tidelog.errors import SettingsError


def test_consecutive_ids_ports_and_directories():
    settings = BrokerSettings.load({"listeners": "PLAINTEXT://h:9092", "log.dirs": "/a,/b"})
    made = plans(settings, 3)
    assert [plan.broker_id for plan in made] == [0, 1, 2]
    assert made[2].settings == {
        "broker.id": "2",
        "log.dirs": "/a/broker-2,/b/broker-2",
        "metastore": "sqlite:/a/metadata.db",
        "listeners": "PLAINTEXT://h:9094",
    }


def test_what_is_given_is_kept():
    settings = BrokerSettings.load(
        {
            "listeners": "PLAINTEXT://[::1]:0",
            "advertised.listeners": "PLAINTEXT://out:500",
            "metastore": "zk://a:2181/x",
            "broker.id": "5",
        }
    )
    one, two = plans(settings, 2)
    assert one.settings["metastore"] == "zk://a:2181/x"
    assert two.settings["broker.id"] == "6"
    assert two.settings["listeners"] == "PLAINTEXT://[::1]:0"
    assert two.settings["advertised.listeners"] == "PLAINTEXT://out:501"


def test_ports_end():
    settings = BrokerSettings.load({"listeners": "PLAINTEXT://h:65534"})
    assert len(plans(settings, 2)) == 2
    with pytest.raises(SettingsError, match="65536"):
        plans(settings, 3)
