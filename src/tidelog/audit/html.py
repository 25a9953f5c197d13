"""The audit as a page that stands alone: tables and bars, nothing loaded from elsewhere."""

import html
from collections.abc import Sequence
from datetime import UTC, datetime

from tidelog.audit.ledger import INCOMPLETE, OPEN, WindowReport

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em;color:#222;max-width:70em}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}
table{border-collapse:collapse;margin:.6em 0}
td,th{padding:.25em .8em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}
.complete{color:#0a7d33}.incomplete{color:#c1121f;font-weight:600}.open{color:#888}
rect.ok{fill:#5b9bd5}rect.bad{fill:#c1121f}rect.open{fill:#bbb}text{font-size:10px;fill:#555}
"""

_BAR, _GAP, _HIGH = 14, 8, 120


def page(
    reports: Sequence[WindowReport],
    tiers: Sequence[str],
    watermarks: dict[str, int | None],
    now_ms: int,
) -> str:
    """The whole page."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Audit</title>",
        f"<style>{_STYLE}</style></head><body><h1>Audit</h1><p>As of {_time(now_ms)}.</p>",
    ]
    for topic in sorted({each.topic for each in reports}):
        mine = [each for each in reports if each.topic == topic]
        until = watermarks.get(topic)
        said = "nothing is complete yet" if until is None else f"complete up to {_time(until)}"
        parts.append(f"<h2>{html.escape(topic)}</h2><p>{said}</p>")
        parts.append(_chart(mine, tiers))
        parts.append(_table(mine, tiers))
    parts.append("</body></html>")
    return "".join(parts)


def _table(reports: Sequence[WindowReport], tiers: Sequence[str]) -> str:
    heads = "".join(f"<th>{html.escape(tier)}</th>" for tier in tiers)
    rows = []
    for each in reports:
        cells = "".join(f"<td>{_cell(each, tier)}</td>" for tier in tiers)
        rows.append(
            f"<tr><td>{_time(each.start_ms)}</td>{cells}<td class={each.state}>{each.state}</td></tr>"
        )
    return f"<table><tr><th>window</th>{heads}<th></th></tr>{''.join(rows)}</table>"


def _cell(report: WindowReport, tier: str) -> str:
    text = f"{report.counts.get(tier, 0):,}"
    marks = (("missing", report.missing), ("twice", report.duplicated), ("late", report.late))
    for word, found in marks:
        if found.get(tier):
            text += f"<br><small>{found[tier]:,} {word}</small>"
    return text


def _chart(reports: Sequence[WindowReport], tiers: Sequence[str]) -> str:
    """A group of bars for each window, a bar for each tier."""
    most = max((max(each.counts.values(), default=0) for each in reports), default=0) or 1
    step = _BAR * len(tiers) + _GAP
    wide = step * len(reports) + _GAP
    bars = []
    for place, each in enumerate(reports):
        for number, tier in enumerate(tiers):
            count = each.counts.get(tier, 0)
            high = round(_HIGH * count / most)
            bad = each.state == INCOMPLETE and (tier in each.missing or tier in each.duplicated)
            kind = "bad" if bad else "open" if each.state == OPEN else "ok"
            left = _GAP + place * step + number * _BAR
            bars.append(
                f"<rect class={kind} x={left} y={_HIGH - high} width={_BAR - 2} height={max(high, 1)}>"
                f"<title>{html.escape(tier)} {_time(each.start_ms)}: {count:,}</title></rect>"
            )
    return f'<svg width="{wide}" height="{_HIGH + 4}" role="img">{"".join(bars)}</svg>'


def _time(timestamp_ms: int) -> str:
    when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return when.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
