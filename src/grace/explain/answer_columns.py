"""Lines and column names of answers as a table, in memory (`answer_table`) and in the files of jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from grace.problem.answers import Answers
from grace.text import sentence

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation

Positions = npt.NDArray[np.int64]
OLD, NEW = "old.", "new."  # prefixes of a feature's name: its value in the row, and in the contrastive row
INPUT = "input."  # prefix of an extra column whose name is that of a column of the answers


def answer_lines(found: Answers) -> tuple[Answers, Positions, Positions]:
    """All answers, those of a row one after another, with the position of the row and the rank of each, from 1. A row
    without an answer has one line."""
    every = (found, *found.alternatives)
    kept = [np.flatnonzero(a.success | (i == 0)) for i, a in enumerate(every)]
    rows = np.concatenate(kept)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    if len(every) == 1:
        return found, rows, rank
    lines = Answers.join([a.select(k) for a, k in zip(every, kept, strict=True)])
    return lines.select(order), rows, rank


def in_lines(batch: Iterable[Explanation]) -> Iterator[Explanation]:
    """The explanations of a batch in the order of `answer_lines`."""
    return (e for first in batch for e in (first, *first.alternatives))


def notes_cell(e: Explanation, language: str | None = None) -> str:
    """The notes of an answer as one cell, in a language or in that of the explanation."""
    return "; ".join(sentence.notes(e, language or e.words.language))


def unique_names(names: Sequence[str], taken: Collection[str]) -> list[str]:
    """Names of extra columns, those that are taken with a prefix, so that no two columns have the same name."""
    used, out = {*taken, *names}, []
    for name in names:
        unique = name
        if name in taken:
            while unique in used:
                unique = INPUT + unique
            used.add(unique)
        out.append(unique)
    return out
