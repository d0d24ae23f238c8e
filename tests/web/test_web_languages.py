"""The page in German: every part of it is driven, and no English is left."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import client_of
from fastapi.testclient import TestClient

import grace
import served_kinds as kinds
from grace import GraceError
from grace.text import languages
from grace.web.middleware import OTHER_HOST, OTHER_SITE, TOO_LONG, TOO_SLOW
from grace.web.pages import BROKEN, BUSY, OVER_LIMIT, message, preferred
from grace.web.service import Served
from studies import EVIL
from visitors import Tags, cancer_model, evil_model, says

EN, DE = languages.load("en"), languages.load("de")
SOURCES = Path(grace.__file__).parent
SPOKEN = ("aria-label", "title", "placeholder", "alt", "data-would", "data-words", "content")
TELLTALE = re.findall(
    r"\w+",
    """the of is be been would row rows model says sure change changes changed feature features and or not from to with
    missing other rather than because number class why had have has as it by at most least one no there this that what
    proven found note which if you your cell column unknown range use write give filled lower higher later earlier""",
)
KEPT = (
    "GRACE",
    "English",
    "API",
    "HTML",
    "PNG",
    "SVG",
    "JSON",
    "CSV",
    "the patient",
)  # the last is a note of the tests
SYNTAX = "above 10, below 10, within 5 10, by -3, by +10 %"  # of addresses


class Spoken(HTMLParser):
    """What a page says to a reader or listener: its text and attributes, but for parts in another language."""

    def __init__(self, html: str, code: str = "de") -> None:
        super().__init__()
        self.code, self.said, self.foreign, self.silent = code, list[str](), 0, 0
        self.open: list[tuple[str, bool, bool]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {k: v or "" for k, v in attrs}
        foreign = given.get("lang", self.code) != self.code
        silent = tag in ("script", "style", "textarea", "code")
        if tag not in ("input", "meta", "link", "br", "rect", "path", "circle"):
            self.open.append((tag, foreign, silent))
            self.foreign, self.silent = self.foreign + foreign, self.silent + silent
        if not self.foreign and tag != "meta":
            self.said += [given[k] for k in SPOKEN if k in given]

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            name, foreign, silent = self.open.pop()
            self.foreign, self.silent = self.foreign - foreign, self.silent - silent
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        if not self.foreign and not self.silent:
            self.said.append(data)


def literal(template: str) -> list[str]:
    """The words of a format string, without what is filled in."""
    return [part for part, *_ in string.Formatter().parse(template) if part]


def english() -> list[str]:
    """Parts of English templates that no German one has: of two words or more, or of a word of five letters."""
    german = " ".join([*DE.PAGE.values(), *DE.PICTURES.values(), *DE.SCREEN.values()])
    ours = [*EN.PAGE.values(), *EN.PICTURES.values(), *EN.SCREEN.values(), *DE.ERRORS]
    parts = {
        part.strip(" .:;,({})") for template in ours for part in literal(template.replace("{{", "").replace("}}", ""))
    }
    return sorted(p for p in parts if (" " in p or len(p) > 4) and p not in german and not p.startswith('column":'))


PARTS = re.compile(rf"\b({'|'.join(map(re.escape, english()))})\b")
WORDS = re.compile(rf"\b({'|'.join(TELLTALE)})\b", re.IGNORECASE)


def english_in(said: Iterable[str], names: Iterable[str]) -> list[str]:
    """English words among those of a page, apart from the names of the data."""
    longest_first = sorted({*names, *KEPT, SYNTAX}, key=len, reverse=True)
    known = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)")
    rests = {line: known.sub("·", line) for line in dict.fromkeys(said)}
    return [
        f"{p!r} in {line.strip()!r}" for line, rest in rests.items() for p in WORDS.findall(rest) + PARTS.findall(rest)
    ]


def names_of(*models: Served) -> set[str]:
    """What comes from the data: names of features, categories, classes, models and other columns."""
    out: set[str] = set()
    for m in models:
        out |= {m.name, *m.schema.names, *(n.replace("_", " ") for n in m.schema.names), *map(str, m.classes)}
        out |= {str(c) for f in m.schema.features for c in getattr(f, "categories", ())} - {"missing"}
        out |= {str(cell) for column in m.extra.columns for cell in (column, *m.extra[column])}
    return {n for n in out if n}


def test_a_planted_word_is_found() -> None:
    assert english_in(["Das Modell sagt gutartig"], []) == []
    assert english_in(["die Zeile", "Try it: move the row there"], [])
    assert english_in(["Warum gutartig rather than bösartig?"], [])
    assert english_in(['{"f0": "would be 3"}'], [])
    assert english_in(["bare nuclei"], ["bare nuclei"]) == []
    page = cancer_page().text.replace(DE.PAGE["most_changes"], EN.PAGE["most_changes"], 1)
    assert any("Most changes" in line for line in english_in(Spoken(page).said, names_of(cancer_model())))
    planted = cancer_page().text.replace('lang="de"', 'lang="de" aria-label="the answer"', 1)
    assert english_in(Spoken(planted).said, names_of(cancer_model()))
    assert english_in(Spoken('<p>nein <span lang="en">the reason</span> the end</p>').said, [])[0].endswith("'the end'")


def cancer_page() -> TestClient:
    return client_of(cancer_model()).get("/?row=0&language=de&more=yes")  # type: ignore[return-value]


BASE = [
    "/?row=0&language=de",
    "/?row=1&language=de&more=yes",
    "/download/why.html?row=0&language=de",
    "/download/why.svg?row=1&language=de",
]
FURTHER = {
    "cancer": [
        "/more?row=0&language=de",
        "/answer?row=2&language=de&template=because&style=relative",
        "/answer?row=3&language=de&template=typical&style=magnitude",
        "/download/why.exe?language=de",
        "/nothing?language=de",
        "/?row=0&language=de&now.bare_nuclei=1&now.normal_nucleoli=2",
        "/moved?row=0&language=de&now.bare_nuclei=1&now.normal_nucleoli=2",
        "/moved?row=0&language=de&now.bare_nuclei=9",
        "/moved?row=0&language=de&now.bare_nuclei=viel",
        "/?row=0&k=1&freeze=bare_nuclei&language=de&more=yes",
        "/?row=0&against=malignant&language=de",
        "/?row=0&language=de&low.mitoses=1.2&high.mitoses=1.4",
        "/?row=0&language=de&low.mitoses=9&high.mitoses=2&k=0&n=x&against=weder&freeze=nase&style=vage&model=x",
        "/?row=99999&language=de",
        "/?language=de&fill=bare_nuclei&fill=mitoses&" + "&".join(f"is.{n}=3" for n in cancer_model().schema.names[:5]),
        "/?language=de&" + "&".join(f"is.{n}=33" for n in cancer_model().schema.names),
    ],
    "evil": [
        "/?row=0&language=de&never.home=rented&never.home=%3Cb%3Eowned%3C/b%3E&up=age&low.age=20&high.age=70",
        "/?row=1&language=de&freeze=age&more=yes",
    ],
    "homes": [
        "/?row=0&language=de&against=above+400000&more=yes",
        "/?row=0&language=de&against=below+9&k=1",
        "/?row=0&language=de&against=nonsense",
        "/?row=0&language=de&aim=within&aim.number=9&aim.upper=3",
        "/moved?row=0&language=de&now.area=190",
        "/moved?row=0&language=de&now.area=41",
        "/download/why.html?row=0&language=de&against=by+-20+%25",
    ],
    "browsed": [f"/?row={i}&language=de" for i in range(4)] + ["/?row=2&fill=area&language=de&more=yes"],
}
SERVED = {
    "cancer": cancer_model,
    "evil": evil_model,
    "homes": kinds.homes_model,
    "cutoff": kinds.cutoff_model,
    "labels": kinds.labels_model,
    "clusters": kinds.clusters_model,
    "curved": kinds.curved_model,
    "dated": kinds.dated_model,
    "gappy": kinds.gappy_model,
    "following": kinds.following_model,
    "browsed": kinds.browsed_model,
}


@pytest.mark.parametrize("kind", SERVED)
def test_the_german_page_is_german(kind: str) -> None:
    served = SERVED[kind]()
    client = client_of(served)
    names = names_of(served)
    for path in [*BASE, *FURTHER.get(kind, [])]:
        answer = client.get(path)
        assert answer.status_code in (200, 404, 422), (path, answer.text)
        if answer.text.startswith("<!doctype"):
            assert Tags(answer.text).of("html")[0]["lang"] == "de", path
        found = english_in(Spoken(answer.text).said, names)
        assert found == [], (path, found)


WRONG_ROWS = (
    "",
    "1,2,3",
    "{",
    "[1]",
    "a\n1",
    "a,a\n1,2",
    "a,b\n1",
    'a,b\n"1,2',
    '{"mitoses": "viel"}',
    "{}",
    "[" * 9999,
)


def test_what_is_wrong_with_a_row_is_said_in_german() -> None:
    client = client_of(cancer_model())
    row = cancer_model().example(0)
    rows = [*WRONG_ROWS, *(json.dumps({**row, "mitoses": cell}) for cell in ("viel", "inf", "", True, [1]))]
    rows += [json.dumps({**row, "home": 1, "mitoses": None})]
    for text in rows:
        for number in ("0", "7", "x"):
            parts = {"language": (None, "de"), "text": (None, text), "number": (None, number)}
            answer = client.post("/row", files=parts)  # type: ignore[arg-type]
            found = english_in(Spoken(answer.text).said, names_of(cancer_model()))
            assert found == [], (text[:40], number, found)
            assert (answer.status_code == 422) == bool(Tags(answer.text).of("textarea")[0].get("aria-invalid"))
    kept = client.post("/row", files={"language": (None, "de"), "text": (None, json.dumps(row))})  # type: ignore[arg-type]
    assert kept.url.params["language"] == "de"
    assert says(kept.text).startswith("Wäre")


# -- the catalogues ---------------------------------------------------------------------------


@pytest.mark.parametrize("code", languages.names())
@pytest.mark.parametrize("part", ["PAGE", "PICTURES", "SCREEN"])
def test_every_language_has_all_words_with_the_same_parts(code: str, part: str) -> None:
    ours, theirs = getattr(EN, part), getattr(languages.load(code), part)
    assert list(theirs) == list(ours)
    for key, template in theirs.items():
        fields = {name for _, name, *_ in string.Formatter().parse(template) if name}
        assert fields == {name for _, name, *_ in string.Formatter().parse(ours[key]) if name}, key
        assert not hasattr({}, key), f"{key} would be a method of the dict in a template"


ENGLISH_ONLY = (
    "api.py",
    "bodies.py",
    "examples.py",
    "hosts.py",
    "server.py",
)  # for programmers, and for who starts the server


def errors_of_the_page() -> set[str]:
    """The texts of errors that are raised for visitors; an f-string, which nobody could translate, by its place."""
    out = {BUSY, BROKEN, OVER_LIMIT, TOO_LONG, TOO_SLOW, OTHER_HOST, OTHER_SITE}
    for file in [f for f in (SOURCES / "web").glob("*.py") if f.name not in ENGLISH_ONLY]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("GraceError", "HTTPException"):
                out |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
                out |= {f"{file.name}:{node.lineno}" for a in node.args if isinstance(a, ast.JoinedStr)}
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                target = node.targets[0]
                if isinstance(target, ast.Name) and (target.id == "message" or target.id.startswith("NO_")):
                    out.add(node.value.value)
    return out


def test_every_error_of_the_page_is_translated() -> None:
    of_the_server = {"there is no model to serve; give a directory, or --demo"}
    assert errors_of_the_page() - of_the_server - set(DE.ERRORS) == set()


def test_every_translation_of_an_error_is_of_one_that_there_is() -> None:
    sources = "".join(
        node.value
        for file in SOURCES.rglob("*.py")
        if file.parent.name != "de"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for template, german in DE.ERRORS.items():
        assert template in sources or template in (OVER_LIMIT, TOO_LONG, TOO_SLOW), template
        fields = {name for _, name, *_ in string.Formatter().parse(german) if name} if "{" in german else set()
        if '{"spalte": 1.5}' not in german or "{{" in german:
            assert fields <= {name for _, name, *_ in string.Formatter().parse(template) if name}, template


def test_an_error_without_a_translation_says_whose_words_these_are() -> None:
    assert message(GraceError("the moon is full"), "en").lead == ""
    unknown = message(GraceError("the moon is full"), "de")
    assert (unknown.text, unknown.code) == ("the moon is full", "en")
    assert unknown.lead == DE.PAGE["in_english"]
    known = GraceError("there is no feature {name!r}; features: {known}", name="x", known=tuple("abcdefghij"))
    assert str(known) == "there is no feature 'x'; features: a, b, c, d, e, f, g, h, ... (10 in all)"
    said = message(known, "de")
    assert said.text == "ein Merkmal „x“ gibt es nicht; Merkmale: a, b, c, d, e, f, g, h, … (insgesamt 10)"


# -- which language -----------------------------------------------------------------------------


def test_a_bare_address_follows_the_browser_where_the_schema_has_the_words() -> None:
    client = client_of(cancer_model())
    german = client.get("/", headers={"accept-language": "fr, de-AT;q=0.8, en;q=0.5"}, follow_redirects=False)
    assert german.headers["location"] == "/?row=0&language=de"
    for accepted in ("en, de;q=0.5", "", "fr", "de;q=0", "de;q=x"):
        assert client.get("/", headers={"accept-language": accepted}, follow_redirects=False).status_code == 200
    # an address that says something says the same to everyone
    shared = client.get("/?row=0", headers={"accept-language": "de"}, follow_redirects=False)
    assert says(shared.text).startswith("Had")
    # nor are words made up that the schema does not have
    assert preferred("de", evil_model().schema) == "en"
    (switch,) = [t for t in Tags(shared.text).of("a") if t.get("hreflang") == "de"]
    assert says(client.get(switch["href"]).text).startswith("Wäre")


def test_an_explanation_in_another_language() -> None:
    e = cancer_model().quick.explainer.explain(cancer_model().example(0))[0]
    german = e.in_language("de")
    assert german.text() == e.text(language="de")
    assert german.in_language("de") is german
    assert "Warum bösartig und nicht gutartig?" in german.to_svg()
    assert '<html lang="de">' in german.to_html()
    assert e.in_language("en") is e
    assert "Why malignant" in e.to_svg()
    assert EVIL in evil_model().quick.explainer.explain(evil_model().example(0))[0].in_language("de").row
