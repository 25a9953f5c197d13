"""`tidelog cluster info`."""


def test_info(cli, broker, topic):
    said = cli("cluster", "info", "--json").ok().json
    assert said["controller"] == 0
    assert [each["port"] for each in said["brokers"]] == [broker.port]
    assert said["partitions"] >= 1
    assert cli("cluster", "info").ok().lines[-1].split()[:3] == ["0", "127.0.0.1", str(broker.port)]
