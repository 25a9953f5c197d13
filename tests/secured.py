"""A secured broker for tests: SASL_SSL, access rules, and an administrator who logs in with PLAIN."""

import datetime
from collections.abc import Mapping
from pathlib import Path

import trustme

from tidelog.testing.local_broker import LocalBroker

ADMIN, SECRET = "admin", "a-secret-of-admin"


class Files:
    """A certificate authority, and what it has signed, as PEM files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._authority = trustme.CA()
        self.roots = directory / "roots.pem"
        self._authority.cert_pem.write_to_path(self.roots)
        self.server = self.issue("server", "localhost", "127.0.0.1")

    def issue(
        self, file: str, *names: str, common_name: str | None = None, expired: bool = False
    ) -> Path:
        """A certificate with its key, in one file."""
        until = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        made = self._authority.issue_cert(
            *names,
            common_name=common_name,
            not_before=until - datetime.timedelta(days=9) if expired else None,
            not_after=until if expired else None,
        )
        path = self.directory / f"{file}.pem"
        path.unlink(missing_ok=True)
        made.private_key_and_cert_chain_pem.write_to_path(path)
        return path


def broker_settings(files: Files, **more: str) -> dict[str, str]:
    """What makes a broker a secured one."""
    return {
        "ssl.keystore.certificate.chain": str(files.server),
        "ssl.truststore.certificates": str(files.roots),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.plain.users": f"{ADMIN}:{SECRET}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.inter.broker.username": ADMIN,
        "sasl.inter.broker.password": SECRET,
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def secured_broker(directory: Path, files: Files, **more: str) -> LocalBroker:
    return LocalBroker(
        directory / "broker", settings=broker_settings(files, **more), protocol="SASL_SSL"
    )


def as_user(
    bootstrap: str,
    files: Files,
    user: str = ADMIN,
    password: str = SECRET,
    mechanism: str = "PLAIN",
) -> dict[str, str]:
    """Settings of a client, of ours or of librdkafka."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.roots),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def as_file(path: Path, settings: Mapping[str, str]) -> Path:
    """For `--client-config`."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
