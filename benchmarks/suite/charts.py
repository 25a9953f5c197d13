"""Two kinds of chart as SVG: bars in groups, and lines over a common axis.  Lines have a logarithmic axis.

Text is text, colours are readable on white and on black, and there is nothing in them but what the report needs.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#1f77b4", "#d95f02", "#e6ab02", "#999999", "#66a61e", "#a6761d", "#7570b3", "#e7298a")
_WIDTH, _LEFT, _TOP, _LEGEND = 820, 70, 34, 210
_FONT = 'font-family="sans-serif" font-size="12" fill="#777"'


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Horizontal bars: group → name → value.  The longest is the largest; no value, no bar."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    largest = max((value for group in groups.values() for value in group.values()), default=1) or 1
    left, bar, gap = 270, 15, 12
    room = _WIDTH - left - 200
    parts, y = [_text(10, 18, f"{title} ({unit})", bold=True)], _TOP
    for group, values in groups.items():
        parts.append(_text(10, y + 12, group))
        for name, value in values.items():
            width = max(value / largest * room, 1)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            parts.append(
                f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 3}" fill="{colour}"/>'
            )
            parts.append(_text(left + width + 6, y + 11, f"{short(value)}  {name}"))
            y += bar
        y += gap
    return _svg(_WIDTH, y + 4, parts)


def lines(
    title: str,
    x_unit: str,
    y_unit: str,
    curves: Mapping[tuple[str, str], Sequence[Sequence[float]]],
    levels: Mapping[str, float],
) -> str:
    """Curves of (x, y) points by (name, variant); y is logarithmic.  A name has one colour, its second variant is dashed.

    `levels` are drawn across, for comparison.
    """
    height, bottom = 380, 330
    heights = [y for curve in curves.values() for _, y in curve if y > 0]
    if not heights:
        return _svg(_WIDTH, 40, [_text(10, 18, f"{title}: nothing was measured", bold=True)])
    heights += levels.values()
    top = 10 ** math.ceil(math.log10(max(heights)))
    low = 10 ** math.floor(math.log10(min(heights)))
    top = max(top, low * 10)

    def place(x: float, y: float) -> tuple[float, float]:
        share = math.log10(max(y, low) / low) / math.log10(top / low)
        across = _LEFT + x * (_WIDTH - _LEFT - _LEGEND)
        return across, bottom - share * (bottom - _TOP)

    parts = [_text(10, 18, f"{title} ({y_unit})", bold=True)]
    mark = low
    while mark <= top:
        _, y = place(0, mark)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _LEGEND}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc" stroke-width="0.5"/>'
        )
        parts.append(_text(_LEFT - 8, y + 4, short(mark), anchor="end"))
        mark *= 10
    for label, level in levels.items():
        _, y = place(0, level)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _LEGEND}" y1="{y:.1f}" y2="{y:.1f}" stroke="#777" stroke-dasharray="1 3"/>'
        )
        parts.append(_text(_LEFT + 4, y - 4, label))
    names = list(dict.fromkeys(name for name, _ in curves))
    seen: set[str] = set()
    for number, ((name, variant), curve) in enumerate(curves.items()):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        dashes = ' stroke-dasharray="6 4"' if name in seen else ""
        seen.add(name)
        # Every curve over its own length: systems that are slower were given fewer messages.
        furthest = max((x for x, _ in curve), default=1) or 1
        path = " ".join("{:.1f},{:.1f}".format(*place(x / furthest, y)) for x, y in curve if y > 0)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        y = _TOP + 6 + 18 * number
        x = _WIDTH - _LEGEND + 10
        parts.append(
            f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"{dashes}/>'
        )
        parts.append(_text(x + 30, y + 4, f"{name}, {variant}" if variant else name))
    parts.append(
        _text(_LEFT, bottom + 26, f"from the first to the last message of each run ({x_unit})")
    )
    return _svg(_WIDTH, height, parts)


def short(value: float) -> str:
    """A number as a person says it: 1.2 M, 35 k, 0.42."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{_three(value / limit)}{unit}"
    return _three(value)


def _three(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _text(x: float, y: float, text: str, *, bold: bool = False, anchor: str = "start") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {_FONT} text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def _svg(width: float, height: float, parts: list[str]) -> str:
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>\n{body}\n</svg>\n'
