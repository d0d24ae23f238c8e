"""Pages and notebooks: whole, escaped, without outside assets."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import grace
from problems import CASES, Formula, two_class

VOID = {"meta", "input", "br"}
EVIL = "<script>alert(1)</script>"


class Balance(HTMLParser):
    """Fails unless every tag is closed in its place; collects what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(written: str) -> Balance:
    found = Balance()
    found.feed(written)
    found.close()
    assert found.open == []
    assert "http" not in written  # nothing from outside, not even a namespace
    for tag, attributes in found.seen:
        assert tag not in ("img", "link", "iframe")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    return found


@pytest.fixture(scope="module")
def batch() -> grace.Explanations:
    case = next(c for c in CASES if c.name == "network")
    return case.explainer(n=2).explain(case.rows)


def test_the_page_of_one_explanation(batch: grace.Explanations) -> None:
    for e in batch:
        found = read(e.to_html())
        words = " ".join(found.words)
        assert e.text() in words
        for other in e.alternatives:
            assert other.text() in words
        for change in e.changes:
            assert grace.text.sentence.value(change.feature, change.new) in words
        pictures = [a for tag, a in found.seen if tag == "svg"]
        assert len(pictures) >= 1 + len(e.changes)
        assert all(a["role"] == "img" and a["aria-label"] for a in pictures)
        assert [tag for tag, _ in found.seen if tag in ("main", "h1")] == ["main", "h1"]


def test_the_page_of_an_explanation_from_json(batch: grace.Explanations) -> None:
    again = grace.Explanation.from_json(batch[0].to_json())
    assert batch[0].text() in " ".join(read(again.to_html()).words)
    kept = grace.Explanation.from_json(batch[0].to_json(backdrop=True))
    assert len(kept.to_html()) > len(again.to_html())


def test_the_page_of_a_batch(batch: grace.Explanations) -> None:
    found = read(batch.to_html())
    words = " ".join(found.words)
    for e in batch:
        assert e.text() in words
    ids = [a["id"] for _, a in found.seen if "id" in a]
    assert len(ids) == len(set(ids))
    assert ("label", {"for": "grace-search"}) in found.seen
    rows = words.count("classified the row as")
    few = " ".join(read(batch.to_html(most=3)).words)
    assert few.count("classified the row as") == 3 < rows
    assert f"The first 3 of {len(batch)} rows" in few


def test_notebooks_show_a_part_without_touching_the_rest(batch: grace.Explanations) -> None:
    for written in (batch._repr_html_(), batch[0]._repr_html_()):
        found = read(written)
        assert found.seen[0] == ("div", {"class": "grace"})
        assert not {"html", "body", "script", "main"} & {tag for tag, _ in found.seen}
        assert not any("id" in a for _, a in found.seen)
        style = next(w for w in found.words if "--grace-ink" in w)
        rules = [r.rsplit("}", 1)[-1].rsplit("{", 1)[-1] for r in style.split("{")[:-1]]
        assert all(".grace" in r or r.strip().startswith("@media") for r in rules), rules
    assert "and 7 more" in batch._repr_html_()


def test_names_values_and_labels_are_escaped() -> None:
    train = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)).round(2), columns=[EVIL, "b", "c"])
    model = grace.wrap(Formula(two_class), classes=["no", EVIL], outputs="logits")
    rows = train.head(3).set_axis([EVIL, "x", "y"])
    batch = grace.Explainer(model, train).explain(rows)
    for written in (batch.to_html(), batch._repr_html_(), batch[0].to_html(), batch[0]._repr_html_()):
        read(written)
        assert EVIL not in written
        assert "&lt;script&gt;" in written


# -- profiles and reasons ---------------------------------------------------------------------


def test_a_page_with_profile_and_reasons(batch: grace.Explanations) -> None:
    e, profile, reasons = batch[0], batch.profile()[0], batch.reasons()[0]
    plain, found = read(e.to_html()), read(e.to_html(profile=profile, reasons=reasons))
    assert profile.text() in found.words
    assert reasons.text() in found.words
    assert len([1 for tag, _ in found.seen if tag == "svg"]) == len([1 for tag, _ in plain.seen if tag == "svg"]) + 2
    items = [1 for tag, _ in found.seen if tag == "li"]
    assert len(items) == len([1 for tag, _ in plain.seen if tag == "li"]) + len(reasons.shown) > 0
    german = read(e.in_language("de").to_html(profile=profile, reasons=reasons))
    assert profile.text(language="de") in german.words
    assert "Alle Gründe" in german.words


def test_profiles_and_reasons_in_a_notebook() -> None:
    frame = CASES[0].train.rename(columns={"a": EVIL})
    explainer = grace.Explainer(CASES[0].model(), frame, gamma=1.0)
    profile, reasons = explainer.profile(frame.head(1))[0], explainer.reasons(frame.head(1))[0]
    for shown in (profile, reasons):
        written = shown._repr_html_()
        assert EVIL not in written
        assert shown.text() in read(written).words
    assert "<svg" in profile._repr_html_()
    assert reasons._repr_html_().count("<li>") == len(reasons.shown)
