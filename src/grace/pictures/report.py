"""Self-contained HTML: a page about one explanation or a batch, and what a notebook shows.

No outside assets; light and dark; prints; works on a phone, without a mouse and read aloud. Every class name
starts with "grace", so that nothing clashes with a page around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grace.pictures import KINDS, STYLE, batch_picture, svg_columns, to_svg
from grace.pictures.numeric import label, value
from grace.pictures.single import question, reading, remaining, words_of
from grace.pictures.svg import escape
from grace.schema.features import Value
from grace.schema.words import DEFAULT
from grace.text import languages, sentence
from grace.text.vocabulary import class_caption

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.explain.explanations import Explanations

IN_NOTEBOOK = 5  # sentences of a batch

LOOK = """
.grace{font:16px/1.5 'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;color:var(--grace-ink);
  background:var(--grace-paper)}
.grace svg{max-width:100%;height:auto;display:block;background:none}
.grace h1{font-size:1.6rem;line-height:1.25;margin:0 0 .6rem}
.grace h2{font-size:1.1rem;margin:2rem 0 .5rem}
.grace-says{font-size:1.2rem;line-height:1.45;margin:0 0 1.5rem;max-width:44rem}
.grace-panels{display:flex;flex-wrap:wrap;gap:1.6rem 2.4rem;margin:1.2rem 0}
.grace-panels>div{flex:1 1 320px;min-width:0;max-width:430px;display:flex;flex-direction:column;gap:1.6rem}
.grace-panels svg{width:100%}
.grace-soft{color:var(--grace-soft);font-size:.86rem}
.grace.grace .grace-old{color:var(--grace-old)} .grace.grace .grace-new{color:var(--grace-new);font-weight:600}
.grace-scroll{overflow-x:auto}
.grace.grace table{border-collapse:collapse;width:100%;color:inherit;margin:.5rem 0;font-size:.92rem;background:none;
  table-layout:auto}
.grace.grace tr{text-align:left}
.grace.grace th,.grace.grace td{text-align:left;vertical-align:top;padding:.4rem .7rem .4rem 0;border:0;
  border-bottom:1px solid var(--grace-line);color:inherit;background:none;white-space:normal;line-height:1.4}
.grace.grace th{color:var(--grace-soft);font-weight:600}
.grace.grace .grace-n{text-align:right;font-variant-numeric:tabular-nums}
.grace.grace .grace-why{width:70%;min-width:16rem;overflow-wrap:anywhere}
.grace details{margin:1rem 0} .grace summary{cursor:pointer}
.grace :focus-visible{outline:2px solid var(--grace-new);outline-offset:2px}
"""

PAGE = """
html{background:#fff} @media(prefers-color-scheme:dark){html{background:#0d1117}}
body{margin:0} main.grace{max-width:56rem;margin:0 auto;padding:2rem 1.2rem 3rem;min-height:80vh}
.grace-wide{display:block;margin:0 -24px} .grace-narrow{display:none;margin:0 -1.2rem}
@media(max-width:719px){.grace-wide{display:none} .grace-narrow{display:block}
  .grace-rows th:nth-child(n+3),.grace-rows td:nth-child(n+3){display:none}}
.grace-numbers{display:flex;flex-wrap:wrap;gap:.6rem 2.6rem;margin:1rem 0 1.6rem;padding:0}
.grace-numbers div{display:flex;flex-direction:column-reverse}
.grace-numbers dt{color:var(--grace-soft);font-size:.86rem}
.grace-numbers dd{margin:0;font-size:1.5rem;line-height:1.2}
.grace input{font:inherit;color:inherit;background:none;border:1px solid var(--grace-soft);border-radius:6px;
  padding:.45rem .7rem;width:min(100%,24rem)}
@media print{html{background:#fff} main.grace{max-width:none;padding:0} .grace-search{display:none}
  .grace tr,.grace svg{break-inside:avoid}}
"""

SEARCH = """
<script>
document.getElementById("grace-search").addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  let shown = 0;
  for (const row of document.querySelectorAll("#grace-rows tr")) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
    shown += !row.hidden;
  }
  document.getElementById("grace-found").textContent = shown + " shown";
});
</script>"""


def page(e: Explanation) -> str:
    """One explanation: the sentence, its pictures, and the rest of the row."""
    title = question(e)
    return document(title, f"<h1>{escape(title)}</h1>{body(e)}{rest(e)}", e.words.language)


def fragment(e: Explanation) -> str:
    """One explanation in a notebook."""
    return f'<div class="grace"><style>{STYLE}{LOOK}</style>{body(e)}</div>'


def body(e: Explanation) -> str:
    """What a page and a notebook have in common."""
    backdrop = e.backdrop()
    columns = "".join(f"<div>{''.join(parts)}</div>" for parts in svg_columns(e, backdrop) if parts)
    words = words_of(e)
    noted = [words["note"].format(note=note) for note in e.notes]
    notes = [*noted, remaining(e), words["marks"] if e.success else "", reading(e, backdrop)]
    said = " ".join(n for n in notes if n)
    return (
        f'<p class="grace-says">{escape(e.text())}</p><div class="grace-panels">{columns}</div>'
        f'{alternatives(e)}<p class="grace-soft">{escape(said)}</p>'
    )


def alternatives(e: Explanation) -> str:
    if not e.alternatives:
        return ""
    return f"<h2>{words_of(e)['other_answers']}</h2><ul>{items(other.text() for other in e.alternatives)}</ul>"


def items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def rest(e: Explanation) -> str:
    """The changes as a table, the features that stay, and how the answer was checked."""
    words, code = words_of(e), e.words.language
    changed = {c.name for c in (*e.changes, *e.follow_on)}
    lines = "".join(
        f'<tr><th scope="row">{escape(label(e, c))}</th><td class="grace-n grace-old">{escape(value(e, c, c.old))}</td>'
        f'<td class="grace-n grace-new">{escape(value(e, c, c.new))}</td></tr>'
        for c in e.changes
    )
    head = f'<tr><th scope="col">{words["feature"]}</th><th scope="col" class="grace-n">{words["is"]}</th>'
    head += f'<th scope="col" class="grace-n">{words["would_be"]}</th></tr>'
    along = "".join(
        f'<tr><th scope="row">{escape(label(e, c))} <span class="grace-soft">{words["would_then_be"]}</span></th>'
        f'<td class="grace-n">{escape(value(e, c, c.old))}</td>'
        f'<td class="grace-n">{escape(value(e, c, c.new))}</td></tr>'
        for c in e.follow_on
    )
    table = folded(words["changes_table"], head + lines + along) if e.changes else ""
    others = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="grace-n">{escape(cell_text(cell, code))}</td></tr>'
        for name, cell in e.row.items()
        if name not in changed
    )
    found = words["found_by"].format(method=e.settings.get("method"), k=e.settings.get("max_features"))
    return (
        f"{table}{folded(words['stays_table'].format(n=len(e.row) - len(changed)), others)}"
        f'<p class="grace-soft">{escape(found)} {escape(words["checked"].format(checks=checks(e)))}</p>'
    )


def folded(title: str, lines: str) -> str:
    """A table that opens on demand."""
    return f'<details><summary>{title}</summary><div class="grace-scroll"><table>{lines}</table></div></details>'


def batch_page(batch: Explanations, *, most: int = 1000) -> str:
    """A batch: its numbers, three pictures, and the sentences of the first rows, which can be searched."""
    overview = batch.overview()
    pictures = "".join(
        f'<div class="grace-wide">{to_svg(batch_picture(overview, kind, width=860), inline=True)}</div>'
        f'<div class="grace-narrow">{to_svg(batch_picture(overview, kind, width=390), inline=True)}</div>'
        for kind in KINDS
    )
    done = int(batch.success.sum())
    title = f"{done} of {len(batch)} predictions explained"
    count = min(most, len(batch))
    shown = f"The first {count} of {len(batch)} rows" if count < len(batch) else f"{count} rows"
    search = (
        '<p class="grace-search"><label for="grace-search">Search the sentences </label><br>'
        '<input id="grace-search" type="search"> <span id="grace-found" class="grace-soft" role="status"></span></p>'
    )
    return document(
        title,
        f"<h1>{title}</h1>{numbers(batch)}{pictures}<h2>{shown}</h2>{search}"
        f'<div class="grace-scroll"><table class="grace-rows"><thead>{heads()}</thead><tbody id="grace-rows">'
        f"{sentences(batch, count)}</tbody></table></div>{SEARCH}",
    )


def batch_fragment(batch: Explanations) -> str:
    """A batch in a notebook."""
    done = int(batch.success.sum())
    count = min(IN_NOTEBOOK, len(batch))
    more = f'<p class="grace-soft">and {len(batch) - count} more</p>' if count < len(batch) else ""
    picture = to_svg(batch_picture(batch.overview(), "features", width=640), inline=True)
    return (
        f'<div class="grace"><style>{STYLE}{LOOK}</style>'
        f'<p class="grace-says">{done} of {len(batch)} rows explained</p>{picture}'
        f'<div class="grace-scroll"><table><thead>{heads()}</thead><tbody>{sentences(batch, count)}</tbody></table>'
        f"</div>{more}</div>"
    )


def heads() -> str:
    cells = "".join(f'<th scope="col">{word}</th>' for word in ("row", "why", "class", "contrast"))
    return f"<tr>{cells}</tr>"


def sentences(batch: Explanations, count: int) -> str:
    """A line for each of the first rows."""
    lines = []
    for i in range(count):
        e = batch[i]
        contrast = "none found" if e.contrast_class is None else class_caption(e.words, e.contrast_class)
        original = class_caption(e.words, e.original_class)
        lines.append(
            f'<tr><th scope="row">{escape(str(batch.index[i]))}</th><td class="grace-why">{escape(e.text())}</td>'
            f'<td class="grace-old">{escape(original)}</td><td class="grace-new">{escape(contrast)}</td></tr>'
        )
    return "".join(lines)


def numbers(batch: Explanations) -> str:
    """The batch in a few numbers."""
    m = batch.metrics()
    said = [("rows", f"{len(batch):,}"), ("explained", f"{m.fidelity:.0%}")]
    if batch.success.any():
        said += [("features changed on average", f"{m.features:.2f}"), ("distance in spreads", f"{m.distance:.2f}")]
        said += [("inside the domain", f"{m.domain:.0%}")]
    lines = "".join(f"<div><dt>{word}</dt><dd>{value}</dd></div>" for word, value in said)
    return f'<dl class="grace-numbers">{lines}</dl>'


def document(title: str, content: str, language: str = DEFAULT) -> str:
    return f"""<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>
<style>{STYLE}{LOOK}{PAGE}</style></head>
<body><main class="grace">{content}</main></body></html>
"""


def checks(e: Explanation) -> str:
    """What the model confirmed of the answer."""
    words = words_of(e)
    named = {"flip": "check_flip" if e.wanted is None else "check_number"}
    passed = [named.get(k, f"check_{k}") for k, ok in e.checks.items() if ok]
    return ", ".join(words[k] for k in passed if k in words) or words["check_none"]


def cell_text(cell: Value | None, code: str) -> str:
    if cell is None:
        return languages.load(code).PICTURES["missing"]
    number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return sentence.number(sentence.decimal(cell), code) if number else str(cell)
