"""Versions and cipher suites: what a handshake between two contexts in memory agrees on."""

import ssl
from pathlib import Path

import pytest
import trustme

from tidelog.errors import SettingsError
from tidelog.security.certificates import Certificates, ClientAuth, TlsFiles
from tidelog.security.tls_policy import TlsPolicy

BOTH = ("TLSv1.2", "TLSv1.3")
GCM, CHACHA = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-CHACHA20-POLY1305"
OF_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    directory: Path = tmp_path_factory.mktemp("tls")
    issued = authority.issue_cert("localhost", key_type=trustme.KeyType.RSA)
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    authority.cert_pem.write_to_path(directory / "roots.pem")
    server = str(directory / "server.pem")
    return TlsFiles(server, server, "", str(directory / "roots.pem"))


def agreed(files: TlsFiles, policy: TlsPolicy, client: ssl.SSLContext) -> tuple[str, str]:
    """The version and the suite; raises `ssl.SSLError` where there are none."""
    server = Certificates(files, ClientAuth.NONE, policy).context()
    client.check_hostname = False
    client.load_verify_locations(files.trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    cipher = ends[1].cipher()
    assert cipher is not None
    return str(ends[1].version()), cipher[0]


def speaking(version: ssl.TLSVersion, suites: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    if suites:
        context.set_ciphers(suites)
    return context


def test_what_is_not_enabled_is_not_spoken(files: TlsFiles):
    old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert agreed(files, TlsPolicy(BOTH), speaking(old))[0] == "TLSv1.2"
    assert agreed(files, TlsPolicy(BOTH), speaking(new))[0] == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        agreed(files, TlsPolicy(("TLSv1.3",)), speaking(old))
    with pytest.raises(ssl.SSLError):
        agreed(files, TlsPolicy(("TLSv1.1", "TLSv1.2")), speaking(new))


def test_only_the_suites_that_are_named(files: TlsFiles):
    policy = TlsPolicy(BOTH, (GCM, CHACHA))
    old = ssl.TLSVersion.TLSv1_2
    assert agreed(files, policy, speaking(old)) == ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384")
    assert agreed(files, policy, speaking(old, CHACHA)) == ("TLSv1.2", CHACHA)
    with pytest.raises(ssl.SSLError):
        agreed(files, policy, speaking(old, "ECDHE-RSA-AES128-GCM-SHA256"))
    with pytest.raises(ssl.SSLError):  # none of TLS 1.3's is named
        agreed(files, policy, speaking(ssl.TLSVersion.TLSv1_3))
    with pytest.raises(ssl.SSLError):
        agreed(files, TlsPolicy(BOTH, OF_1_3), speaking(old))


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (TlsPolicy(BOTH, ("TLS_RSA_WITH_NONSENSE",)), "'TLS_RSA_WITH_NONSENSE' is not a suite"),
        (TlsPolicy(BOTH, (GCM, "HIGH")), "'HIGH' is not a suite"),
        (TlsPolicy(BOTH, (GCM, "ALL:!aNULL")), "'ALL:!aNULL' is not a suite"),
        (TlsPolicy(BOTH, (GCM, OF_1_3[0])), "all or none"),
        (TlsPolicy(("TLSv1.3",), (GCM,)), "has no suite of TLSv1.3"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(files: TlsFiles, policy: TlsPolicy, told: str):
    with pytest.raises(SettingsError, match=told):
        Certificates(files, ClientAuth.NONE, policy)
