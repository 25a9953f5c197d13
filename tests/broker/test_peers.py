"""What a broker makes of the answers of other brokers."""

from random import Random

import pytest

from tidelog.broker import peers as module
from tidelog.broker.peers import BrokerPeers
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import BrokerRecord
from tidelog.errors import NetworkException, ProtocolError
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest


async def test_a_damaged_answer_is_a_failure_of_the_network(monkeypatch):
    """It is asked again: a broker whose registration or news of failed disks met with one would end."""

    class Garbling:
        closed = False

        async def ask(self, request, *, timeout_s, at_most):
            raise ProtocolError("11 bytes are left over")

    async def connected(_):
        return Garbling()

    monkeypatch.setattr(module._Link, "connected", connected)
    image, _ = Image().apply([BrokerRecord(2, (("PLAINTEXT", "host", 9092),))], 1)
    peers = BrokerPeers(1, lambda: image, Random(1))
    with pytest.raises(NetworkException, match="broker 2 is damaged: 11 bytes"):
        await peers.ask(2, BrokerHeartbeatRequest())
