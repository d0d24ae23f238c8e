"""GRACE's picture beside its sentence."""

from __future__ import annotations

from html import escape

from grace import text
from grace.explanation import Change, Explanation
from grace.features import Numeric

WIDTH, LINE, LEFT, RIGHT = 620, 44, 230, 580

STYLE = """.grace{--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--old:#b84a00;--new:#0066a1}
@media(prefers-color-scheme:dark){.grace{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--old:#ff9d5c;--new:#6cb6ff}}
.grace{font:13px system-ui,sans-serif}.grace text{fill:var(--ink)}"""


def picture_of(e: Explanation) -> str:
    """The changes on their ranges as a self-contained SVG."""
    height = LINE * len(e.changes) + 8
    lines = "".join(_line(change, LINE * i + 24) for i, change in enumerate(e.changes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="grace" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(e.text())}"><style>{STYLE}</style>{lines}</svg>'
    )


def _line(change: Change, y: int) -> str:
    """The name, the range, and an arrow from the old value to the new one."""
    old, new = text.value(change.feature, change.old), text.value(change.feature, change.new)
    name = f'<text x="{LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(text.phrase(change.feature))}</text>'
    if not isinstance(change.feature, Numeric):
        return f'{name}<text x="{LEFT}" y="{y + 4}">{escape(old)} → {escape(new)}</text>'
    low, high = change.feature.bounds
    start, stop = min(low, float(change.old), float(change.new)), max(high, float(change.old), float(change.new))
    a, b = (LEFT + (float(v) - start) / ((stop - start) or 1) * (RIGHT - LEFT) for v in (change.old, change.new))
    return (
        f'{name}<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="var(--line)" stroke-width="6" />'
        f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{y}" y2="{y}" stroke="var(--new)" stroke-width="2" />'
        f'<circle cx="{a:.1f}" cy="{y}" r="5" fill="var(--old)" />'
        f'<circle cx="{b:.1f}" cy="{y}" r="6" fill="var(--new)" />'
        f'<text x="{a:.1f}" y="{y + 20}" text-anchor="middle">{escape(old)}</text>'
        f'<text x="{b:.1f}" y="{y + 20}" text-anchor="middle">{escape(new)}</text>'
    )
