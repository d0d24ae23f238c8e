"""A self-contained HTML page about one explanation."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from grace import text
from grace.features import Feature, Numeric, Value

if TYPE_CHECKING:
    from grace.explanation import Change, Explanation

WIDTH, HEIGHT, EDGE = 300, 34, 10

STYLE = """
:root { --ink:#1b1f24; --soft:#59636e; --line:#d0d7de; --paper:#fff; --old:#b35900; --new:#0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --ink:#e6edf3; --soft:#9198a1; --line:#3d444d; --paper:#0d1117; --old:#ffa657; --new:#79c0ff; } }
body { font:16px/1.5 system-ui,sans-serif; color:var(--ink); background:var(--paper); max-width:52rem;
  margin:2rem auto; padding:0 1rem; }
.says { font-size:1.35rem; line-height:1.4; border-left:4px solid var(--new); padding-left:1rem; }
table { border-collapse:collapse; width:100%; margin:1rem 0; }
th,td { text-align:left; vertical-align:middle; padding:.45rem .6rem; border-bottom:1px solid var(--line); }
th.n,td.n { text-align:right; font-variant-numeric:tabular-nums; white-space:nowrap; }
th { color:var(--soft); font-weight:600; } small,.note { color:var(--soft); }
.old { color:var(--old); } .new { color:var(--new); font-weight:600; }
.scroll { overflow-x:auto; } svg text { fill:var(--soft); font-size:10px; }
"""


def page(e: Explanation) -> str:
    """The sentence, the changes on their ranges, the probabilities and the rest of the row."""
    title = f"Why {e.words.class_word(e.original_class)}?"
    if e.contrast_class is not None:
        title = f"Why {e.words.class_word(e.original_class)} rather than {e.words.class_word(e.contrast_class)}?"
    changed = {c.name for c in e.changes}
    rest = "".join(
        f"<tr><td>{escape(name)}</td><td class=n>{escape(_cell(cell))}</td></tr>"
        for name, cell in e.row.items()
        if name not in changed
    )
    notes = "".join(f"<p class=note>Note: {escape(note)}.</p>" for note in e.notes)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1>
<p class=says>{escape(e.text())}</p>
{_changes(e) if e.changes else ""}
{_probabilities(e)}
{_alternatives(e)}
{notes}
<details><summary>The {len(e.row) - len(changed)} features that stay as they are</summary>
<table><tr><th>feature</th><th class=n>value</th></tr>{rest}</table></details>
<p><small>Found by the {escape(str(e.settings["method"]))} method with at most {e.settings["max_features"]} changed
features. Checked by the model on the values shown: {escape(_checks(e))}.</small></p>
</body></html>
"""


def _changes(e: Explanation) -> str:
    lines = "".join(
        f"<tr><td>{escape(text.phrase(c.feature))}<br><small>{escape(c.name)}</small></td>"
        f"<td class='n old'>{escape(text.value(c.feature, c.old))}</td>"
        f"<td class='n new'>{escape(text.value(c.feature, c.new))}</td><td>{_track(c)}</td></tr>"
        for c in e.changes
    )
    heads = "<tr><th>feature</th><th class=n>is</th><th class=n>would be</th><th>on its range</th></tr>"
    return f"<h2>What would have had to be different</h2><div class=scroll><table>{heads}{lines}</table></div>"


def _track(change: Change) -> str:
    """Old and new value as dots on the feature's range, with an arrow between them."""
    feature = change.feature
    if not isinstance(feature, Numeric):
        return ""
    low, high = feature.bounds
    old, new = float(change.old), float(change.new)
    start, stop = min(low, old, new), max(high, old, new)
    span = (stop - start) or 1.0

    def x(value: float) -> float:
        return EDGE + (value - start) / span * (WIDTH - 2 * EDGE)

    a, b = x(old), x(new)
    tip = b - 7 if b > a else b + 7
    said = f"{text.value(feature, change.old)} to {text.value(feature, change.new)}"
    return f"""<svg width={WIDTH} height={HEIGHT} viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said)}">
<line x1={x(low):.1f} x2={x(high):.1f} y1=12 y2=12 stroke="var(--line)" stroke-width=6 stroke-linecap=round />
<line x1={a:.1f} x2={tip:.1f} y1=12 y2=12 stroke="var(--new)" stroke-width=2 />
<circle cx={a:.1f} cy=12 r=5 fill="var(--old)" /><circle cx={b:.1f} cy=12 r=6 fill="var(--new)" />
<text x={x(low):.1f} y=31>{escape(_short(feature, low))}</text>
<text x={x(high):.1f} y=31 text-anchor=end>{escape(_short(feature, high))}</text></svg>"""


def _probabilities(e: Explanation) -> str:
    lines = "".join(
        f"<tr><td>{escape(e.words.class_word(label))}</td><td class=n>{before:.1%}</td>"
        f"<td class=n>{after:.1%}</td></tr>"
        for label, before, after in zip(e.classes, e.before, e.after, strict=True)
    )
    return f"""<h2>How sure the model is</h2>
<table><tr><th>class</th><th class=n>as it is</th><th class=n>with the changes</th></tr>{lines}</table>"""


def _alternatives(e: Explanation) -> str:
    if not e.alternatives:
        return ""
    lines = "".join(f"<li>{escape(other.text())}</li>" for other in e.alternatives)
    return f"<h2>It could also have been otherwise</h2><ul>{lines}</ul>"


def _checks(e: Explanation) -> str:
    said = {
        "flip": "the class changes",
        "features": "few enough features",
        "gamma": "no two of them redundant",
        "domain": "inside the ranges",
        "irreducible": "none of the changes can be left out",
    }
    return ", ".join(said[k] for k, ok in e.checks.items() if ok and k in said) or "nothing"


def _short(feature: Feature, value: float) -> str:
    return text.number(text.decimal(value)) if isinstance(feature, Numeric) else str(value)


def _cell(cell: Value) -> str:
    return (
        text.number(text.decimal(cell)) if isinstance(cell, int | float) and not isinstance(cell, bool) else str(cell)
    )
