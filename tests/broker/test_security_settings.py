"""A security setting that would have no effect stops the start, and says what to do."""

import pytest

from tidelog.broker.settings import BrokerSettings, declarations
from tidelog.client.settings import ClientSettings, load
from tidelog.errors import SettingsError

TLS = {"listeners": "SSL://127.0.0.1:9093", "ssl.keystore.certificate.chain": "cert.pem"}
LOGIN = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9093"}


def refused(given: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        BrokerSettings.load(given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ssl.client.auht": "required"}, "did you mean ssl.client.auth?"),
        ({"ssl.client.authentication": "required"}, "ssl.client.authentication is not a setting"),
        ({"ssl.enabled.protocol": "TLSv1.3"}, "did you mean ssl.enabled.protocols?"),
        ({"ssl.Client.Auth": "required"}, "ssl.Client.Auth is not a setting"),
        ({"sasl.enabled.mechanism": "SCRAM-SHA-256"}, "did you mean sasl.enabled.mechanisms?"),
        ({"zookeeper.ssl.client.enabled": "true"}, "did you mean zookeeper.ssl.client.enable?"),
        ({"listener.name.plaintext.ssl.client.auth": "required"}, "write ssl.client.auth for all"),
        ({"listener.name.other.max.connection.creation.rate": "5"}, "there is no listener 'other'"),
        ({"ssl.client.auth": "required"}, "no listener speaks TLS"),
        ({"inter.broker.listener.name": "INTERNALL"}, "there are: PLAINTEXT"),
        ({"security.inter.broker.protocol": "SSL"}, "there are: PLAINTEXT"),
        ({**TLS, "ssl.keystore.type": "JKS"}, "openssl pkcs12"),
        ({**TLS, "ssl.engine.factory.class": "acme.Engine"}, "name PEM files"),
        ({**TLS, "ssl.protocol": "SSLv3"}, "nothing older"),
        ({**TLS, "ssl.enabled.protocols": "TLSv1.1"}, "a list with TLSv1.2 or TLSv1.3 in it"),
        ({**TLS, "ssl.enabled.protocols": "TLS1.3"}, "a list with TLSv1.2 or TLSv1.3 in it"),
        ({**LOGIN, "sasl.jaas.config": "hush-hush"}, "sasl.plain.users"),
        ({**LOGIN, "sasl.server.callback.handler.class": "acme.Ldap"}, "are not loaded"),
        ({"principal.builder.class": "acme.Builder"}, "are not loaded"),
    ],
)
def test_what_stops_the_start(given: dict[str, str], told: str):
    said = refused(given)
    assert told in said
    assert "hush-hush" not in said


def test_a_secured_file_of_kafka_loads():
    settings = BrokerSettings.load(
        {
            "listeners": "CLIENTS://:9092,BROKERS://:9093,CONTROLLER://:9094",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SSL,CONTROLLER:SSL",
            "security.inter.broker.protocol": "SSL",
            "listener.name.controller.ssl.client.auth": "required",
            "listener.name.clients.max.connection.creation.rate": "100",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/etc/kafka/server.pem",
            "ssl.keystore.password": "hush-hush",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/etc/kafka/roots.pem",
            "ssl.protocol": "TLSv1.3",
            "ssl.provider": "SunJSSE",
            "ssl.enabled.protocols": "TLSv1.3,TLSv1.2,TLSv1.1",
            "ssl.cipher.suites": "",
            "ssl.secure.random.implementation": "SHA1PRNG",
            "ssl.trustmanager.algorithm": "PKIX",
            "ssl.endpoint.identification.algorithm": "HTTPS",
            "ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "sasl.kerberos.service.name": "kafka",
            "sasl.login.refresh.window.factor": "0.8",
            "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        }
    )
    assert settings.inter_broker_listener().name == "BROKERS"
    assert settings.connection_rates() == {"CLIENTS": 100}
    assert "ssl.provider" in settings.unused
    assert "hush-hush" not in repr(settings)


def test_what_a_door_that_there_is_not_would_need_does_no_harm():
    BrokerSettings.load({"ssl.keystore.type": "JKS", "sasl.jaas.config": "any"})


KEY = "-----BEGIN PRIVATE KEY----- hush-hush -----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.location",
        "ssl.truststore.certificates",
        "zookeeper.ssl.keystore.location",
    ],
)
def test_a_key_in_place_of_its_file_is_refused_and_not_repeated(name: str):
    said = refused({"listeners": "SSL://127.0.0.1:9093", name: KEY})
    assert f"{name} must be the name of a PEM file" in said
    assert "hush-hush" not in said


def test_settings_that_hold_a_key_in_kafka_are_secret():
    for name in (
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
    ):
        assert declarations()[name][1].spec.secret


@pytest.mark.parametrize("name", ["ssl.key.location", "ssl.certificate.location"])
def test_so_it_is_in_a_client(name: str):
    with pytest.raises(SettingsError) as caught:
        load(ClientSettings, {name: KEY}, {})
    assert "hush-hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, []),
        ({"listeners": "PLAINTEXT://localhost:1,PLAINTEXT2://[::1]:2", "listener.security.protocol.map": "PLAINTEXT2:PLAINTEXT"}, []),
        ({"listeners": "PLAINTEXT://:9092"}, ["asks for no login"]),
        ({"listeners": "PLAINTEXT://10.0.0.1:9092"}, ["asks for no login"]),
        ({"listeners": "SSL://0.0.0.0:1"}, ["asks for no login"]),
        ({"listeners": "SSL://0.0.0.0:1", "ssl.client.auth": "requested"}, ["asks for no login"]),
        ({"listeners": "SSL://0.0.0.0:1", "ssl.client.auth": "required"}, []),
        ({"listeners": "SASL_SSL://0.0.0.0:1", "sasl.enabled.mechanisms": "PLAIN"}, []),
        ({"listeners": "SASL_PLAINTEXT://0.0.0.0:1"}, []),
        ({"listeners": "SASL_PLAINTEXT://0.0.0.0:1", "sasl.enabled.mechanisms": "PLAIN"}, ["in plain text"]),
        ({"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:PLAINTEXT,B:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}, ["no login", "in plain text"]),
    ],
)  # fmt: skip
def test_what_is_open_to_strangers_is_told(given: dict[str, str], told: list[str]):
    found = BrokerSettings.load(given).open_doors()
    assert len(found) == len(told)
    assert all(word in each for word, each in zip(told, found, strict=True))
