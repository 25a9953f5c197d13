"""Names out of certificates, their mapping, and files that change."""

import ssl

import pytest
import trustme

from tidelog.errors import SettingsError
from tidelog.security.certificates import (
    Certificates,
    ClientAuth,
    NameRule,
    TlsFiles,
    distinguished_name,
    map_name,
)


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, "ANONYMOUS"),
        ({}, "ANONYMOUS"),
        ({"subject": ((("countryName", "DE"),), (("commonName", "a"),))}, "CN=a,C=DE"),
        ({"subject": ((("commonName", "a,b+c"),),)}, "CN=a\\,b\\+c"),
        ({"subject": ((("emailAddress", "x@y"),),)}, "emailAddress=x@y"),
    ],
)
def test_distinguished_names(certificate, name):
    assert distinguished_name(certificate) == name


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ([], "CN=Alice,OU=Dev"),
        (["DEFAULT"], "CN=Alice,OU=Dev"),
        (["RULE:^CN=(.*?),OU=.*$/$1/"], "Alice"),
        (["RULE:^CN=(.*?),OU=(.*)$/$1@$2/L"], "alice@dev"),
        (["RULE:^CN=(.*?),OU=.*$/$1/U"], "ALICE"),
        (["RULE:^O=.*$/x/", "RULE:^.*$/y/"], "y"),
        (["RULE:^O=.*$/x/"], "CN=Alice,OU=Dev"),
    ],
)
def test_mapping(rules, name):
    assert map_name("CN=Alice,OU=Dev", [NameRule(each) for each in rules]) == name


@pytest.mark.parametrize("text", ["", "RULE:", "RULE:a/b", "RULE:(/b/", "RULE:a/b/X", "rule:a/b/"])
def test_bad_rules(text):
    with pytest.raises(SettingsError, match="mapping"):
        NameRule(text)


@pytest.fixture
def files(tmp_path):
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    made.private_key_pem.write_to_path(tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return TlsFiles(
        *(str(tmp_path / name) for name in ("cert.pem", "key.pem")),
        trusted=str(tmp_path / "ca.pem"),
    )


def test_a_context_and_its_renewal(files, tmp_path):
    store = Certificates(files, ClientAuth.REQUIRED)
    first = store.context()
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert store.context() is first
    renewed = trustme.CA().issue_cert("localhost")
    renewed.private_key_pem.write_to_path(tmp_path / "key.pem")
    assert (
        store.context() is first
    )  # the key does not fit the certificate: the old pair stays in force
    assert "cannot be used" in store.failure
    renewed.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    assert store.context() is not first
    assert store.failure is None


@pytest.mark.parametrize("missing", ["cert.pem", "key.pem", "ca.pem"])
def test_a_missing_file_is_named(files, tmp_path, missing):
    (tmp_path / missing).unlink()
    with pytest.raises(SettingsError, match=missing):
        Certificates(files, ClientAuth.REQUIRED)
