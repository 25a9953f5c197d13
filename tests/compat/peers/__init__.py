"""Foreign clients behind one small face, so that a scenario is written once and runs with each of them."""

from peers.aio import AIOKafka
from peers.base import Message, Peer
from peers.confluent import Confluent, ConfluentNextGeneration
from peers.kafka_python import KafkaPython
from peers.kafkajs import KafkaJS
from peers.kcat import Kcat

PEERS: tuple[type[Peer], ...] = (
    Confluent,
    ConfluentNextGeneration,
    KafkaPython,
    AIOKafka,
    Kcat,
    KafkaJS,
)

__all__ = ["PEERS", "Message", "Peer"]
