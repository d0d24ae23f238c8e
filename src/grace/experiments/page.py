"""The results of a benchmark as a self-contained page."""

from __future__ import annotations

from html import escape

from grace.pictures.report import document

Table = tuple[list[str], list[list[str]]]

MORE = """<style>
main.grace{max-width:78rem} .grace td,.grace th{font-size:.85rem;padding:.3rem .5rem}
.grace td:first-child{white-space:nowrap} .grace tr.ours td:first-child{font-weight:600;color:var(--grace-new)}
</style>"""


def page(
    legend: str,
    tasks: list[tuple[str, list[str], list[list[str]], list[str]]],
    sections: list[tuple[str, str, list[str], list[list[str]]]],
    ours: frozenset[str] = frozenset(),
) -> str:
    """One table per task with what there is to say about it, then further sections: title, words and table."""
    parts = []
    for title, heads, rows, remarks in tasks:
        said = "".join(f"<li>{escape(r)}</li>" for r in remarks)
        parts.append(f"<h2>{escape(title)}</h2>{_table(heads, rows, ours)}<ul class=grace-soft>{said}</ul>")
    for title, words, heads, rows in sections:
        parts.append(f"<h2>{escape(title)}</h2><p>{escape(words)}</p>{_table(heads, rows)}")
    meanings = "".join(f"<li>{_bold(line[2:])}</li>" for line in legend.splitlines() if line.startswith("- "))
    rest = " ".join(line for line in legend.splitlines() if not line.startswith("- "))
    columns = f"<h2>What the columns mean</h2><ul>{meanings}</ul><p>{escape(rest.strip())}</p>"
    return document("Benchmark", f"{MORE}<h1>Benchmark</h1>{''.join(parts)}{columns}")


def _table(heads: list[str], rows: list[list[str]], ours: frozenset[str] = frozenset()) -> str:
    words = ("data", "domain", "method")
    kinds = ["" if h in words else " class=grace-n" for h in heads]
    top = "".join(f"<th{k}>{escape(h)}</th>" for h, k in zip(heads, kinds, strict=True))
    body = "".join(
        f"<tr{' class=ours' if row[0] in ours else ''}>"
        + "".join(f"<td{k}>{_cell(c)}</td>" for c, k in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<div class=grace-scroll><table><tr>{top}</tr>{body}</table></div>"


def _cell(text: str) -> str:
    """A figure, with its ratio below it."""
    figure, bracket, ratio = text.partition(" (")
    return f"{escape(figure)}<br><small>({escape(ratio)}</small>" if ratio.endswith("×)") and bracket else escape(text)


def _bold(line: str) -> str:
    """A line of the legend: its name between asterisks in bold."""
    _, name, meaning = line.split("**")
    return f"<b>{escape(name)}</b>{escape(meaning)}"
