"""Charts as inline SVG: no script, no network, colours from the page's style so that light and dark both work.

In: named series of numbers. Out: SVG text that is safe to put into HTML: every label is escaped. Not here: choosing
what to draw. Series are told apart by colour, by dash and by a label, so that none of them is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_WIDTH, _HEIGHT = 560, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 34
_INNER_WIDTH, _INNER_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_COLOURS = 6
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_SMALL = 0.4  # shares up to this get an axis of their own
_BAR = Markup('<rect class="b c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>')


@dataclass(frozen=True, slots=True)
class Line:
    """A named curve of (x, y) points."""

    name: str
    points: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A named share in [0, 1] with the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


def line_chart(title: str, lines: Sequence[Line], x_label: str, *, share: bool = False) -> Markup:
    """Curves over a common axis.

    Args:
        title: what is drawn, for the caption and for screen readers.
        lines: the curves; those without points are left out.
        x_label: name of the x axis.
        share: values are shares, shown in per cent.
    """
    lines = [line for line in lines if line.points]
    if not lines:
        return Markup("")
    values = [y for line in lines for _, y in line.points]
    ticks = _share_ticks(max(values)) if share else _ticks(min(values), max(values))
    low, high = ticks[0], ticks[-1]
    most = max(x for line in lines for x, _ in line.points)
    least = min(0.0, min(x for line in lines for x, _ in line.points))

    def place(x: float, y: float) -> str:
        across = (x - least) / ((most - least) or 1)
        up = (y - low) / ((high - low) or 1)
        return f"{_LEFT + across * _INNER_WIDTH:.1f},{_TOP + (1 - up) * _INNER_HEIGHT:.1f}"

    parts = [_axes(ticks, least, most, x_label, share=share)]
    for number, line in enumerate(lines):
        path = " ".join(place(x, y) for x, y in line.points)
        shape = Markup('<polyline class="l c{} d{}" points="{}"/>').format(number % _COLOURS, number % 3, path)
        x, y = place(*line.points[-1]).split(",")
        parts += [shape, Markup('<circle class="p c{}" cx="{}" cy="{}" r="2.5"/>').format(number % _COLOURS, x, y)]
    return _figure(title, parts, [f"{line.name}: {_way(line.points, share)}" for line in lines])


def bar_chart(
    title: str,
    series: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    x_label: str,
    *,
    band: Sequence[int] = (),
) -> Markup:
    """Bars side by side: one cluster a label, one bar a series.

    Args:
        title: what is drawn.
        series: name -> one value a label.
        labels: names of the clusters.
        x_label: name of the x axis.
        band: clusters that are shaded, by number.
    """
    values = [value for bars in series.values() for value in bars]
    if not values:
        return Markup("")
    ticks = _ticks(0.0, max(values))
    high = ticks[-1]
    slot = _INNER_WIDTH / len(labels)
    width = slot * 0.8 / len(series)
    parts = [_axes(ticks, None, None, x_label)]
    for index in band:
        parts.append(Markup('<rect class="band" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(
            _LEFT + index * slot, _TOP, slot, _INNER_HEIGHT))  # fmt: skip
    for number, (name, bars) in enumerate(series.items()):
        for index, value in enumerate(bars):
            height = value / high * _INNER_HEIGHT
            x = _LEFT + index * slot + slot * 0.1 + number * width
            y = _TOP + _INNER_HEIGHT - height
            tip = f"{name}, {labels[index]}: {value:g}"
            parts.append(_BAR.format(number % _COLOURS, x, y, max(1.0, width - 1), height, tip))
    for index, label in enumerate(labels):
        parts.append(_text(_LEFT + (index + 0.5) * slot, _TOP + _INNER_HEIGHT + 14, label, "middle"))
    return _figure(title, parts, list(series))


def area_chart(title: str, layers: Sequence[Line], x_label: str) -> Markup:
    """Shares that add up to one, stacked in the order given, over a common axis. All layers have the same x."""
    layers = [layer for layer in layers if layer.points]
    if not layers:
        return Markup("")
    xs = [x for x, _ in layers[0].points]
    most, least = max(xs), min(0.0, *xs)
    if len(xs) == 1:
        xs, layers = [least, most], [Line(layer.name, [layer.points[0]] * 2) for layer in layers]
    across = [_LEFT + (x - least) / ((most - least) or 1) * _INNER_WIDTH for x in xs]
    parts = [_axes(_SHARES, least, most, x_label, share=True)]
    below = [0.0] * len(xs)
    for number, layer in enumerate(layers):
        above = [min(1.0, low + y) for low, (_, y) in zip(below, layer.points, strict=True)]
        edge = [(x, y) for x, y in zip(across, above, strict=True)]
        edge += [(x, y) for x, y in zip(reversed(across), reversed(below), strict=True)]
        path = " ".join(f"{x:.1f},{_TOP + (1 - y) * _INNER_HEIGHT:.1f}" for x, y in edge)
        parts.append(Markup('<polygon class="b c{}" points="{}"/>').format(number % _COLOURS, path))
        below = above
    return _figure(title, parts, [layer.name for layer in layers])


def interval_chart(title: str, rows: Sequence[Interval]) -> Markup:
    """Shares from 0 to 100 %, one a line from the top, each with its interval."""
    if not rows:
        return Markup("")
    left, line, top = 165, 28, 8
    inner, bottom = _WIDTH - left - 60, top + line * len(rows)
    parts = []
    for number in range(5):
        x = left + inner * number / 4
        grid = Markup('<line class="g" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>')
        parts += [grid.format(x, x, top, bottom), _text(x, bottom + 16, f"{number / 4:.0%}", "middle")]
    for number, row in enumerate(rows):
        y = top + line * (number + 0.5)
        low, at, high = (left + inner * share for share in (row.low, row.value, row.high))
        colour = number % _COLOURS
        tip = f"{row.name}: {row.value:.1%}, {row.low:.1%} to {row.high:.1%}"
        parts.append(Markup('<line class="l c{}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>').format(
            colour, low, high, y, y))  # fmt: skip
        parts.append(Markup('<circle class="p c{}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>').format(
            colour, at, y, tip))  # fmt: skip
        parts += [
            _text(left - 8, y + 4, row.name, "end"),
            _text(max(high, at) + 10, y + 4, f"{row.value:.1%}", "start"),
        ]
    return _figure(title, parts, [], bottom + 24)


def _way(points: Sequence[Sequence[float]], share: bool) -> str:
    """Where a curve begins and ends, so that its numbers need no ruler."""
    ends = [f"{y:.0%}" if share else _number(y) for _, y in (points[0], points[-1])]
    return " → ".join(ends if len(points) > 1 else ends[:1])


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` steps of a round size, from at most `low` to at least `high`."""
    if high - low <= abs(low) * 1e-9 + 1e-12:
        high = low + (abs(low) if abs(low) > 1e-9 else 1.0)
    raw = (high - low) / count
    size = 10 ** math.floor(math.log10(raw))
    step = size * next(nice for nice in (1, 2, 2.5, 5, 10) if nice >= raw / size * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _share_ticks(most: float) -> Sequence[float]:
    """From 0 % to 100 %, or not as high where all values are small."""
    return _SHARES if most > _SMALL else _ticks(0.0, most)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _axes(
    ticks: Sequence[float], least: float | None, most: float | None, x_label: str, *, share: bool = False
) -> Markup:
    parts, low, high = [], ticks[0], ticks[-1]
    for value in ticks:
        y = _TOP + _INNER_HEIGHT * (1 - (value - low) / (high - low))
        parts.append(Markup('<line class="g" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
            _LEFT, _LEFT + _INNER_WIDTH, y, y))  # fmt: skip
        parts.append(_text(_LEFT - 6, y + 4, f"{value:.0%}" if share else _number(value), "end"))
    if least is not None and most is not None:
        for value in _ticks(least, most):
            x = _LEFT + _INNER_WIDTH * (value - least) / ((most - least) or 1)
            if x <= _LEFT + _INNER_WIDTH + 1:
                parts.append(_text(x, _TOP + _INNER_HEIGHT + 14, _number(value), "middle"))
    parts.append(_text(_LEFT + _INNER_WIDTH / 2, _HEIGHT - 4, x_label, "middle"))
    return Markup("").join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _figure(title: str, parts: Sequence[Markup], names: Sequence[str], height: int = _HEIGHT) -> Markup:
    keys = Markup("").join(
        Markup('<span class="key"><svg class="swatch" viewBox="0 0 18 8" aria-hidden="true">'
               '<line class="l c{} d{}" x1="0" x2="18" y1="4" y2="4"/></svg>{}</span>').format(
            number % _COLOURS, number % 3, name)
        for number, name in enumerate(names)
    )  # fmt: skip
    drawing = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, height, title, Markup("").join(parts)
    )
    return Markup("<figure><figcaption>{}</figcaption>{}<div>{}</div></figure>").format(escape(title), drawing, keys)
