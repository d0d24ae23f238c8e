"""The embedded tables: what PROVENANCE.md says of them, the paper's splits, and the words of their schemas."""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib.resources import files

import pandas as pd
import pytest

from grace import GraceError, datasets
from grace.text import sentence
from grace.text.vocabulary import class_caption

pytestmark = pytest.mark.quick

HERE = files("grace.datasets")
PROVENANCE = (HERE / "PROVENANCE.md").read_text(encoding="utf-8")
OVERVIEW = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| (.+?) \| (\d+) \| (\d+) \| (\d+) \|$", PROVENANCE, re.MULTILINE)
DIGESTS = dict(re.findall(r"^### (\w+):.*?sha256:\*\* `(\w{64})`", PROVENANCE, re.MULTILINE | re.DOTALL))
CLASS_COUNTS = {"segment": 7, "mfeat": 10, "california_housing": 0}  # two for all others

PAPER_SPLITS = {
    "eegeye": (12133, 1349, 1498),
    "diabetes": (621, 70, 77),
    "cancer95": (566, 63, 70),
    "phoneme": (4376, 487, 541),
    "segment": (1871, 208, 231),
    "magic": (15406, 1712, 1902),
    "biodeg": (854, 95, 106),
    "spam": (3726, 414, 461),
    "cancer92": (460, 52, 57),
    "mfeat": (1620, 180, 200),
    "musk": (385, 43, 48),
}

every_table = pytest.mark.parametrize("name", datasets.names())


def test_names_are_the_papers_eleven_two_with_categories_and_one_with_a_number():
    assert datasets.names() == (*PAPER_SPLITS, "adult", "german_credit", "california_housing")
    assert set(datasets.names()) == {line[0] for line in OVERVIEW} == set(DIGESTS)


@pytest.mark.parametrize("line", OVERVIEW, ids=lambda line: line[0])
def test_counts_are_those_of_the_provenance(line):
    name, rows, features, classes, missing, duplicates, _ = line
    t = datasets.load(name)
    counts = t.frame[t.target].value_counts()
    assert t.frame.shape == (int(rows), int(features) + 1)
    assert len(t.declared.classes) == (0 if name in datasets.NUMBERS else len(counts)) == CLASS_COUNTS.get(name, 2)
    if name in datasets.NUMBERS:
        assert classes == f"a number from {counts.index.min()} to {counts.index.max()}"
        assert t.schema.classes == ()
    elif "each of" in classes:
        assert set(counts) == {int(classes.split()[0])}
    else:
        assert counts.to_dict() == {part.split()[0]: int(part.split()[1]) for part in classes.split(", ")}
    assert t.frame.isna().sum().sum() == int(missing)
    assert t.frame.duplicated().sum() == int(duplicates)


@pytest.mark.parametrize("line", OVERVIEW, ids=lambda line: line[0])
def test_bytes_are_those_of_the_provenance(line):
    unpacked = gzip.decompress((HERE / "data" / f"{line[0]}.csv.gz").read_bytes())
    assert len(unpacked) == int(line[-1])
    assert hashlib.sha256(unpacked).hexdigest() == DIGESTS[line[0]]


# -- splits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sizes"), PAPER_SPLITS.items())
def test_split_sizes_are_the_papers(name, sizes):
    s = datasets.load(name).split()
    assert (len(s.train), len(s.validation), len(s.test)) == sizes


@every_table
def test_split_is_a_stratified_partition(name):
    t = datasets.load(name)
    s = t.split(seed=3)
    parts = (s.train, s.validation, s.test)
    assert sorted(i for part in parts for i in part.index) == list(t.frame.index)
    whole = t.frame[t.target].value_counts()
    for part in parts:
        pd.testing.assert_frame_equal(part, t.frame.loc[part.index])
        if name in datasets.NUMBERS:
            continue
        expected = whole * len(part) / len(t.frame)
        assert (part[t.target].value_counts().reindex(whole.index) - expected).abs().max() <= 1.5


def test_split_is_determined_by_the_seed():
    one, again, other = (datasets.load("diabetes").split(seed) for seed in (1, 1, 2))
    for part in ("train", "validation", "test"):
        assert list(getattr(one, part).index) == list(getattr(again, part).index)
        assert set(getattr(one, part).index) != set(getattr(other, part).index)


# -- schemas ------------------------------------------------------------------------------------------


@every_table
def test_schema_describes_the_columns(name):
    t = datasets.load(name)
    assert [*t.declared.names, t.target] == list(t.frame.columns)
    assert set(t.declared.classes) == (set() if name in datasets.NUMBERS else set(t.frame[t.target]))
    assert set(t.declared.class_words) <= set(t.declared.classes)
    schema = t.schema
    assert schema.names == t.declared.names
    schema.encode(t.frame, missing=True)  # every cell is a number or a declared category
    low, high = schema.bounds()
    assert (low <= high).all()


@every_table
def test_words_can_be_said(name):
    s = datasets.load(name).declared
    phrases = [sentence.phrase(f) for f in s.features]
    assert len(set(phrases)) == len(phrases)
    assert "{row}" in s.verb
    assert "{class}" in s.verb
    assert len({class_caption(s, c) for c in s.classes}) == len(s.classes)
    for f in s.features:
        labels = [f.label(c) for c in getattr(f, "categories", ())]
        assert len(set(labels)) == len(labels), f.name


# -- loading ------------------------------------------------------------------------------------------


def test_the_case_study_patient_is_found_once():
    frame = datasets.load("cancer95").frame
    patient = frame[datasets.is_case_study(frame)]
    assert patient.drop(columns="class").to_dict("records") == [dict(datasets.CASE_STUDY)]
    assert patient["class"].tolist() == ["malignant"]


def test_changing_a_loaded_frame_leaves_the_next_one_alone():
    first = datasets.load("cancer95").frame
    before = first.copy()
    first["mitoses"] = 0
    pd.testing.assert_frame_equal(datasets.load("cancer95").frame, before)


def test_repr_says_what_it_is():
    assert repr(datasets.load("cancer95")) == "Table('cancer95': 699 rows, 9 features, 2 classes)"
    said = "Table('california_housing': 20640 rows, 8 features, a number to predict)"
    assert repr(datasets.load("california_housing")) == said


def test_unknown_name_is_an_error_that_lists_the_tables():
    with pytest.raises(GraceError, match="'cancer96'") as error:
        datasets.load("cancer96")
    assert all(name in str(error.value) for name in datasets.names())
