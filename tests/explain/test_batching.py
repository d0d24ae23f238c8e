"""What a black box is asked: every question counts, and none is asked beyond the limit; and what it does not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import grace

RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(RNG.normal(0, 2, (200, 4)).round(2), columns=list("abcd"))
LABEL = np.where(FRAME["a"] + 0.5 * FRAME["b"] - 0.3 * FRAME["c"] > 0, "yes", "no")


class Counting:
    """A function that counts the rows that it is asked about."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        self.rows += len(frame)
        worth = frame["a"] + 0.5 * frame["b"] - 0.3 * frame["c"]
        return 1 / (1 + np.exp(-worth))


def asked(**settings: object) -> tuple[Counting, grace.Explainer]:
    box = Counting()
    return box, grace.Explainer(grace.wrap(box, classes=["no", "yes"]), FRAME, **settings)


@pytest.mark.parametrize("against", [None, "yes"])
@pytest.mark.parametrize("most", [0, 60, 400, 3000])
def test_questions_of_misses_and_sentences_count_too(most: int, against: str | None) -> None:
    """Frozen so that most rows have no answer, and reasons are looked for with limits lifted."""
    box, explainer = asked()
    rows, before = FRAME.head(30), box.rows
    batch = explainer.explain(rows, frozen=["a", "b"], max_calls=most, against=against)
    assert batch.calls == box.rows - before
    first = batch.calls
    said = [e.text(template="typical") for e in batch]
    assert said
    assert not batch.success.all()
    assert batch.calls == box.rows - before
    if most:
        assert batch.calls <= max(most, len(rows))
        assert batch.calls_left == max(0, most - batch.calls)
    else:
        assert batch.calls > first  # reasons were really tried
        assert batch.calls_left is None
        assert any("may change" in (e.reason or "") for e in batch)


def test_the_class_of_each_row_is_known_whatever_the_limit() -> None:
    box, explainer = asked()
    before = box.rows
    batch = explainer.explain(FRAME.head(50), max_calls=10)
    assert box.rows - before == batch.calls == 50
    assert (batch.original_class == LABEL[:50]).all()
    assert batch.spent.left_out.all()


def labels(frame: pd.DataFrame) -> np.ndarray:
    return np.where(frame["a"] > 0, "yes", "no")


UNSURE = {
    "labels": lambda: grace.wrap(labels, classes=["no", "yes"]),
    "margins": lambda: SVC().fit(FRAME, LABEL),
    "clusters": lambda: KMeans(2, n_init=1, random_state=0).fit(FRAME),
}
SURE = {
    "chances": lambda: grace.wrap(Counting(), classes=["no", "yes"]),
    "forest": lambda: RandomForestClassifier(10, random_state=0).fit(FRAME, LABEL),
    "layers": lambda: LogisticRegression().fit(FRAME, LABEL),
}


@pytest.mark.parametrize("kind", [*UNSURE, *SURE])
def test_a_model_that_does_not_say_how_sure_it_is_is_not_quoted(kind: str) -> None:
    explainer = grace.Explainer((UNSURE | SURE)[kind](), FRAME, gamma=1.0)
    batch = explainer.explain(FRAME.head(6))
    done = [e for e in batch if e.success]
    assert done
    for e in done:
        for language, word in (("en", " sure)"), ("de", "sicher")):
            for template in ("had", "because"):
                said = e.text(hedge=True, language=language, template=template)
                assert (word in said) == (kind in SURE), said
        assert e.sure == (kind in SURE)
        assert grace.Explanation.from_json(e.to_json()) == e
    assert batch.to_frame()["probability_before"].notna().all() == (kind in SURE)
    assert batch.to_frame()["probability_after"].notna().any() == (kind in SURE)
