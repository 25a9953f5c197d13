"""Looks at a broker's pages, for tests."""

import urllib.error
import urllib.request
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families


class Scraped(Mapping[str, float]):
    """What /metrics told: `scraped['name{topic="orders"}']`, labels in any order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.helps: dict[str, str] = {}
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            self.helps[family.name] = family.documentation
            for each in family.samples:
                key = each.name, frozenset(each.labels.items())
                assert key not in self._values, f"{each} is told twice"
                self._values[key] = each.value

    @property
    def names(self) -> set[str]:
        """Of all samples."""
        return {name for name, _ in self._values}

    def of(self, name: str, **labels: str) -> float:
        return self._values[name, frozenset(labels.items())]

    def all_of(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        return {labels: value for (found, labels), value in self._values.items() if found == name}

    def __getitem__(self, name: str) -> float:
        return self.of(name)

    def __iter__(self):
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._values)


def page(address: object, path: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(address: object) -> Scraped:
    status, text = page(address, "/metrics")
    assert status == 200, text
    return Scraped(text)
