"""What the pages say exists, exists; what is generated is up to date."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")]


def links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)\)", page.read_text())
    return [each for each in targets if not each.startswith(("http://", "https://"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    lost = [target for target in links(page) if not (page.parent / target).exists()]
    assert not lost


def test_the_files_that_the_architecture_names_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)*/[a-z_0-9]*(?:\.py)?)`", text))
    lost = [
        name
        for name in sorted(named)
        if not (ROOT / "src" / "tidelog" / name).exists() and not (ROOT / name).exists()
    ]
    assert not lost


def test_every_layer_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [path.parent.name for path in (ROOT / "src" / "tidelog").glob("*/__init__.py")]
    assert [name for name in packages if f"| `{name}` |" not in text] == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs" / "decisions").glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_the_reference_is_up_to_date() -> None:
    script = ROOT / "scripts" / "reference.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_modules_stay_small() -> None:
    lists = {"src/tidelog/errors.py"}  # a class for each of Kafka's codes, and nothing else
    large = {
        str(path.relative_to(ROOT)): count
        for path in (ROOT / "src").rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 600
    }
    assert large.keys() <= lists, large
