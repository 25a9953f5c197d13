"""`tidelog console` and what `tidelog serve` makes of it; and what is in the wheel."""

import glob
import re
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tidelog.broker.settings import BrokerSettings
from tidelog.cli import _beside as beside
from tidelog.cli import console as command
from tidelog.cli.main import main, parser_for
from tidelog.errors import StartError
from tidelog.testing.local_broker import LocalBroker

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/tidelog/console/static"
WAIT_S = 120


def test_an_address_that_is_none(capsys):
    assert main(["console", "--listen", "nonsense"]) == 2
    assert "--listen nonsense: write it as HOST:PORT" in capsys.readouterr().err


def test_a_login_of_its_own_is_refused_and_not_repeated(capsys):
    options = ["-X", "security.protocol=SASL_SSL", "-X", "sasl.password=hush-hush"]
    assert main(["console", *options]) == 2
    said = capsys.readouterr().err
    assert "sasl.password: the console has no login of its own" in said
    assert "hush-hush" not in said


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(StartError, match=r"needs fastapi: pip install 'tidelog\[console\]'"):
        command._require_extra()


def test_a_port_that_is_taken(capsys, broker: LocalBroker):
    assert main(["console", "-b", broker.bootstrap, "--listen", broker.bootstrap]) == 2
    assert f"the console cannot listen on {broker.bootstrap}" in capsys.readouterr().err


def companions(*options: str, terminal: bool = False, **settings: str) -> list[beside.Companion]:
    arguments = parser_for("serve").parse_args(list(options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: terminal)
        return beside.companions(arguments, "127.0.0.1:9092", BrokerSettings.load(settings))


@pytest.mark.parametrize(
    ("options", "terminal", "listen"),
    [
        ([], False, None),
        ([], True, "127.0.0.1:8080"),
        (["--no-console"], True, None),
        (["--console"], False, "127.0.0.1:8080"),
        (["--console", "0.0.0.0:1"], True, "0.0.0.0:1"),
    ],
)
def test_when_serve_runs_it(options, terminal, listen):
    found = companions(*options, terminal=terminal)
    assert [each.command[4] for each in found] == ([listen] if listen else [])


@pytest.mark.parametrize("listen", ["127.0.0.1:7", ":7"])
def test_serve_tells_it_where_the_registry_is(listen):
    *_, console = companions("--registry", listen, "--console")
    assert console.command[-2:] == ("--registry", "http://127.0.0.1:7")


def test_serve_hands_on_under_which_names_they_are_reached():
    found = companions("--registry", "--console", "--allow-host", "a.example", "--allow-host", "b")
    assert len(found) == 2
    for each in found:
        assert "--allow-host a.example --allow-host b" in " ".join(each.command)
        parser_for(each.command[0]).parse_args(list(each.command[1:]))  # which takes them


def test_serve_uses_the_listener_with_a_login():
    (console,) = companions(
        "--console",
        **{
            "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_SSL://0.0.0.0:9093",
            "ssl.keystore.certificate.chain": "cert.pem",
            "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN,SCRAM-SHA-512",
            "sasl.plain.users": "admin:hush-hush",
        },
    )
    told = " ".join(console.command)
    assert "--bootstrap 127.0.0.1:9093" in told
    assert "security.protocol=SASL_SSL" in told
    assert "--mechanism SCRAM-SHA-512 --mechanism PLAIN" in told
    assert "ssl.ca.location=cert.pem" in told
    assert "hush-hush" not in told


@pytest.mark.parametrize(
    ("listeners", "reached"),
    [
        ("SSL://127.0.0.1:9092", None),
        ("SSL://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9093", None),
        ("PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9093", None),
        ("PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093", "127.0.0.1:9092"),
        ("SSL://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093", "127.0.0.1:9093"),
        ("SASL_SSL://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093", "127.0.0.1:9093"),
    ],
)
def test_serve_never_lends_it_the_brokers_certificate(listeners, reached, caplog):
    """Whoever reaches the console would be the broker, as a rule a super user."""
    found = companions(
        "--console",
        **{
            "listeners": listeners,
            "ssl.keystore.certificate.chain": "broker.pem",
            "ssl.keystore.key": "broker.key",
            "ssl.truststore.certificates": "roots.pem",
            "ssl.client.auth": "required",
        },
    )
    assert not [part for each in found for part in each.command if "broker." in part]
    if reached is None:
        assert found == []
        assert "tidelog console" in caplog.text
        assert "ssl.certificate.location" in caplog.text
    else:
        (console,) = found
        assert console.command[2] == reached


def test_a_console_that_nobody_asked_for_is_not_missed(caplog):
    (console,) = companions(terminal=True)
    assert not console.asked_for


@pytest.mark.faults
def test_serve_runs_it_beside_the_broker(tmp_path: Path):
    """Start, an answer, and both stop together, with a live tail open."""
    arguments = ["--console", "127.0.0.1:0"]
    with LocalBroker(tmp_path, arguments=arguments, start_timeout_s=WAIT_S) as broker:
        deadline = time.monotonic() + WAIT_S
        while (said := re.search(r"the console is ready on (\S+)", broker.log())) is None:
            assert time.monotonic() < deadline, broker.log()
            time.sleep(0.05)
        url = said[1]
        with urllib.request.urlopen(f"{url}/api/v1/overview", timeout=WAIT_S) as answer:
            assert answer.status == 200
        made = urllib.request.Request(
            f"{url}/api/v1/topics",
            b'{"name": "watched"}',
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(made, timeout=WAIT_S).close()
        with urllib.request.urlopen(f"{url}/api/v1/topics/watched/tail", timeout=WAIT_S) as tail:
            assert tail.readline() == b": here we go\n"
            assert broker.stop() == 0
            tail.read()  # it has ended
    assert "Traceback" not in broker.log()


# ---------------------------------------------------------------------- the wheel


def test_static_files_are_in_the_wheel():
    """Found by the pattern of pyproject.toml, as setuptools finds them."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    package = STATIC.parents[1]
    found = {
        package / each
        for pattern in setuptools["package-data"]["tidelog"]
        for each in glob.glob(pattern, root_dir=package, recursive=True)
    }
    assert {each for each in STATIC.rglob("*") if each.is_file()} <= found


def test_vendored_libraries_keep_their_licences():
    licences = {each.name for each in (STATIC / "vendor").glob("LICENSE.*")}
    assert licences == {"LICENSE.htm", "LICENSE.preact", "LICENSE.uplot"}


def test_the_page_is_made_of_files_that_are_there():
    """Every import and link of the page, so that none fails in a browser only."""
    for path in [STATIC / "index.html", *STATIC.rglob("*.js")]:
        if path.parent.name == "vendor":
            continue
        pattern = r'(?:from|src=|href=)\s*"([^"#:]+\.(?:js|css|svg))"'
        for each in re.findall(pattern, path.read_text()):
            base = path.parent if each.startswith(".") else STATIC
            assert (base / each).exists(), (path.name, each)


def test_no_file_loads_anything_from_elsewhere():
    for path in STATIC.rglob("*"):
        if path.suffix in (".js", ".css", ".html") and path.parent.name != "vendor":
            text = re.sub(r"https?://(127\.0\.0\.1|www\.w3\.org)", "", path.read_text())
            assert "http://" not in text, path
            assert "https://" not in text, path
