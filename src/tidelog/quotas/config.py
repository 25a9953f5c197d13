"""Settings of quotas, under Kafka's names."""

from tidelog.dataclass import dataclass
from tidelog.settings import Section, at_least, setting

NO_LIMIT = (1 << 63) - 1
NO_RATE = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig(Section):
    """How use is measured, and limits for those whom no quota speaks of."""

    windows: int = setting(
        "quota.window.num",
        11,
        "Windows over which the use of clients is measured: a client may save up what all but one of them allow.",
        check=at_least(1),
    )
    window_s: int = setting(
        "quota.window.size.seconds",
        1,
        "Length of each of these windows.",
        check=at_least(1),
    )
    controller_windows: int = setting(
        "controller.quota.window.num",
        11,
        "Windows of controller_mutation_rate: so much may be used at once after a silence.",
        check=at_least(1),
    )
    controller_window_s: int = setting(
        "controller.quota.window.size.seconds",
        1,
        "Length of each of these windows.",
        check=at_least(1),
    )
    producer_default: int = setting(
        "quota.producer.default",
        NO_LIMIT,
        "Bytes a second of producers for whom no quota is set, each client id by itself; `tidelog quota` sets "
        "it while the broker runs.",
        check=at_least(1),
    )
    consumer_default: int = setting(
        "quota.consumer.default",
        NO_LIMIT,
        "Bytes a second of consumers for whom no quota is set, each client id by itself.",
        check=at_least(1),
    )
    connection_rate: int = setting(
        "max.connection.creation.rate",
        NO_RATE,
        "New connections a second; further ones wait to be accepted. Of one listener with "
        "listener.name.{name}. in front. Connections between brokers are exempt if they have a listener of their own.",
        check=at_least(1),
        dynamic=True,
    )
