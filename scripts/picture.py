"""Draws the README's picture of the whole, light and dark: docs/tidelog-light.svg and docs/tidelog-dark.svg.

python scripts/picture.py            # write them
python scripts/picture.py --check    # fail if they are not up to date
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).parents[1] / "docs"
WIDTH, HEIGHT = 960, 470
FONT = "-apple-system, 'Segoe UI', Inter, Helvetica, Arial, sans-serif"
THEMES = {
    "light": {"ink": "#17212b", "soft": "#5b6875", "line": "#b8c3cd", "box": "#f4f7f9", "main": "#e0eff5", "edge": "#0b6b8f"},
    "dark": {"ink": "#e8eef3", "soft": "#9fb0be", "line": "#48586a", "box": "#17212b", "main": "#0e3344", "edge": "#58b7d9"},
}  # fmt: skip


class Picture:
    """Boxes, and lines between them."""

    def __init__(self, colours: dict[str, str]) -> None:
        self._colours = colours
        self._parts: list[str] = []

    def box(
        self, x: int, y: int, width: int, height: int, title: str, *lines: str, main: bool = False
    ) -> None:
        fill = self._colours["main" if main else "box"]
        edge = self._colours["edge" if main else "line"]
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{edge}"/>'
        )
        middle = x + width // 2
        first = y + height // 2 - 9 * len(lines) + 5
        self._text(middle, first, title, "ink", 15, "600")
        for number, line in enumerate(lines, 1):
            self._text(middle, first + 19 * number, line, "soft", 12.5, "400")

    def band(self, x: int, y: int, width: int, height: int, title: str) -> None:
        """A box around others, with its title above them."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{self._colours["main"]}" '
            f'stroke="{self._colours["edge"]}"/>'
        )
        self._text(x + width // 2, y + 22, title, "ink", 15, "600")

    def arrow(self, points: list[tuple[int, int]], label: str = "", at: tuple[int, int] = (0, 0)) -> None:  # fmt: skip
        path = " L".join(f"{x} {y}" for x, y in points)
        self._parts.append(
            f'<path d="M{path}" fill="none" stroke="{self._colours["soft"]}" stroke-width="1.4" '
            'marker-start="url(#end)" marker-end="url(#end)"/>'
        )
        if label:
            self._text(*at, label, "soft", 12.5, "400")

    def svg(self) -> str:
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" role="img" '
            'aria-label="Kafka clients, Python clients, Spark, a mirror, the schema registry and the console around three brokers with '
            'log segments and metadata in SQLite or ZooKeeper">\n'
            f'<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            f'<path d="M0 0 L8 4 L0 8 z" fill="{self._colours["soft"]}"/></marker></defs>\n{body}\n</svg>\n'
        )

    def _text(self, x: int, y: int, text: str, colour: str, size: float, weight: str) -> None:
        self._parts.append(
            f'<text x="{x}" y="{y}" fill="{self._colours[colour]}" font-size="{size}" font-weight="{weight}" '
            f'text-anchor="middle">{escape(text)}</text>'
        )


def draw(colours: dict[str, str]) -> str:
    """The whole: who talks to the brokers above, what they keep below."""
    picture = Picture(colours)
    picture.box(
        20,
        16,
        210,
        76,
        "Any Kafka client",
        "Java, librdkafka, kafka-python,",
        "aiokafka, franz-go, kcat …",
    )
    picture.box(
        250,
        16,
        210,
        76,
        "tidelog for Python",
        "Producer, Consumer, Admin, aio",
        "pytest fixture · commands",
    )
    picture.box(
        480,
        16,
        210,
        76,
        "Spark, without a jar",
        'format("tidelog") · exactly-once',
        "loads · windows · joins",
    )
    picture.box(
        710,
        16,
        230,
        76,
        "pandas, Polars, DuckDB",
        'tidelog.read("orders")',
        "topics as Arrow tables",
    )
    for x in (125, 355, 585, 825):
        picture.arrow([(x, 92), (x, 150)])
    picture.band(20, 150, 920, 100, "Kafka's wire protocol")
    for number in range(3):
        picture.box(
            44 + 150 * number, 184, 136, 54, f"broker {number}", "one loop, one core", main=True
        )
    picture.box(
        520,
        184,
        396,
        54,
        "groups · transactions · quotas",
        "TLS, logins, rules · metrics",
        main=True,
    )
    picture.arrow([(187, 250), (187, 300)])
    picture.arrow([(477, 250), (477, 300)])
    picture.box(
        20,
        300,
        335,
        70,
        "Log segments",
        "Kafka's files: page cache, sendfile,",
        "retention, compaction, replicas",
    )
    picture.box(375, 300, 205, 70, "Metadata", "SQLite on one machine,", "ZooKeeper on several")
    picture.box(
        600,
        300,
        340,
        70,
        "Lake",
        "Delta or Parquet: rows and offsets in one commit,",
        "every message once",
    )
    picture.arrow([(690, 54), (700, 54), (700, 130), (952, 130), (952, 335), (940, 335)])
    picture.box(20, 394, 215, 60, "Mirror", "clusters into clusters, groups too")
    picture.box(255, 394, 215, 60, "Schema registry", "Avro, JSON, Protobuf · rules")
    picture.box(490, 394, 215, 60, "Audit", "did everything arrive?")
    picture.box(725, 394, 215, 60, "Console", "the cluster in a browser, REST")
    return picture.svg()


def main() -> int:
    wanted = {DOCS / f"tidelog-{name}.svg": draw(colours) for name, colours in THEMES.items()}
    if "--check" in sys.argv[1:]:
        old = [path.name for path, text in wanted.items() if not path.exists() or path.read_text() != text]  # fmt: skip
        if old:
            print(f"out of date: {', '.join(old)}; run make docs", file=sys.stderr)
        return len(old)
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
