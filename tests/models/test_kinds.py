"""Checks that every method passes on every kind of model; run as a program, it prints the table of docs/models.md."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import grace
from grace.methods import METHODS
from grace.models.predictor import tree_ensemble
from grace.proofs.certificate import EXCEPT_TIES, PROVEN
from kinds import KINDS, Kind
from reading import read

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Keras's own

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
ROWS = 6
MADE: dict[str, tuple[grace.Explainer, object]] = {}


def explainer_of(kind: Kind) -> tuple[grace.Explainer, object]:
    """Each is made once."""
    if kind.name not in MADE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the other libraries
            model, predict = kind.make()
            MADE[kind.name] = grace.Explainer(model, kind.frame, gamma=1.0, domain="minmax"), predict
    return MADE[kind.name]


def answered(kind: Kind, method: str) -> grace.Explanations:
    """A batch of answers, each of which the model itself confirms."""
    explainer, predict = explainer_of(kind)
    rows = kind.frame.head(ROWS)
    batch = explainer.explain(rows, method=method, against=kind.against)
    done, before, after = batch.success, np.asarray(predict(rows)), np.asarray(predict(batch.contrast))
    if explainer.model.task == "regression":
        assert np.allclose(batch.original_class, before)
        assert (after[done] >= before[done] + 0.5).all()
    else:
        assert (batch.original_class == before).all()
        assert (after[done] == batch.contrast_class[done]).all()
        assert (after[done] != before[done]).all()
    if method != "deepfool":  # which leaves whole numbers
        assert (batch.contrast.dtypes == rows.dtypes).all()
    assert (batch.contrast.isna() == rows.isna()).all(axis=None)
    changed = batch.changed.to_numpy()
    assert (changed.any(axis=1) == done).all()
    if METHODS[method].promises:
        assert changed.sum(axis=1).max() <= batch.settings["max_features"]
        assert batch.schema.contains(batch.answers.contrast)[changed].all()
    return batch


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=[pytest.mark.slow] if m in ("local", "deepfool") else []) for m in METHODS]
)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_every_method_on_every_kind(kind: Kind, method: str) -> None:
    batch = answered(kind, method)
    if method == "deepfool" and not batch.success.any():
        return  # it follows slopes alone, and the steps of trees have none
    assert batch.success.any()
    for e in batch:
        assert grace.Explanation.from_json(e.to_json()) == e
        classes = explainer_of(kind)[0].model.task == "classification"
        if e.success and classes and "dates" not in kind.columns:  # the reader of sentences knows no dates
            row, label = read(e.text(), e, batch.schema)
            assert (row, str(label)) == (e.contrast, str(e.contrast_class))
    e = batch[int(np.flatnonzero(batch.success)[0])]
    assert e.to_svg().startswith("<svg")
    assert e.text(language="de")
    assert batch.to_html()


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_rows_do_not_depend_on_their_batch(kind: Kind) -> None:
    explainer, _ = explainer_of(kind)
    rows = kind.frame.head(ROWS)
    batch = explainer.explain(rows, against=kind.against)
    for i in range(0, ROWS, 3):
        alone = explainer.explain(rows.iloc[[i]], against=kind.against)
        assert (alone.answers.contrast[0] == batch.answers.contrast[i]).all()


def table() -> str:
    """What works with what, by trying it."""
    lines = [
        f"| model | columns tried | read as | {' | '.join(METHODS)} | proofs |",
        "|---" * (len(METHODS) + 4) + "|",
    ]
    for kind in KINDS:
        if kind.library and find_spec(kind.library) is None:
            continue
        explainer, _ = explainer_of(kind)
        works = ["yes" if answered(kind, method).success.any() else "no" for method in METHODS]
        proofs = "yes" if has_proofs(kind) else "–"
        lines.append(f"| {kind.name} | {kind.columns} | {read_as(explainer)} | {' | '.join(works)} | {proofs} |")
    return "\n".join(lines)


def read_as(explainer: grace.Explainer) -> str:
    if tree_ensemble(explainer.model) is not None:
        return "trees"
    return "a black box" if explainer.model.black_box else "layers"


def has_proofs(kind: Kind) -> bool:
    """Whether anything is proven about some of the rows."""
    explainer, _ = explainer_of(kind)
    try:
        batch = explainer.explain(kind.frame.head(ROWS), against=kind.against, prove=True)
    except grace.GraceError:
        return False
    return bool(np.isin(batch.answers.proof, [PROVEN, EXCEPT_TIES]).any())


@pytest.mark.slow
def test_the_page_shows_what_works() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for kind in KINDS:  # what is not installed here is on the page all the same
        if kind.library and find_spec(kind.library) is None:
            page = "".join(line for line in page.splitlines(keepends=True) if not line.startswith(f"| {kind.name} |"))
    assert table() in page


if __name__ == "__main__":
    print(table())
