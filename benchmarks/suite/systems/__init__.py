"""The systems that are compared, a file each; each has a class `System` of its own, listed by `ALL` in the order of the report."""

from suite.systems.activemq import ActiveMq
from suite.systems.apache_kafka import ApacheKafka, TunedApacheKafka
from suite.systems.base import System
from suite.systems.mock import Mock
from suite.systems.nats import Nats
from suite.systems.rabbitmq import RabbitMq
from suite.systems.tidelog import Tidelog

ALL: tuple[type[System], ...] = (
    Tidelog,
    ApacheKafka,
    TunedApacheKafka,
    Mock,
    RabbitMq,
    ActiveMq,
    Nats,
)
