"""What is kept of answers, in terms of JSON: all that a person could see, to the last bit."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

import grace

STYLES = ("exact", "magnitude", "relative", "auto")
TEMPLATES = ("had", "because", "typical")


@dataclass(frozen=True)
class Case:
    """A question by name; `answer` gives what is compared, in terms of JSON."""

    name: str
    answer: Callable[[], dict[str, Any]]


def sha(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def cells(frame: pd.DataFrame) -> dict[str, Any]:
    """A table bit for bit: a hash of its bytes, the types, and every value for a person to read."""
    parts = [
        values.tobytes() if values.dtype.kind in "biufmM" else repr(values.tolist()).encode()
        for values in (frame[c].to_numpy() for c in frame.columns)
    ]
    rows = {
        f"row {label}": {f"column {c}": repr(v) for c, v in zip(frame.columns, line, strict=True)}
        for label, line in zip(frame.index, frame.itertuples(index=False, name=None), strict=True)
    }
    return {"values": rows, "types": frame.dtypes.astype(str).to_dict(), "sha256": sha(b"".join(parts))}


def kept(batch: grace.Explanations, *, pages: bool = True) -> dict[str, Any]:
    """All that a person could see of a batch; with pages and further pictures, which take long, only where asked."""
    each = list(batch)
    shown = next((e for e in each if e.success), each[0])
    templates = TEMPLATES if shown.success and shown.typical else TEMPLATES[:2]
    frames = {f"csv {code}": batch.to_frame(language=code).to_csv().split("\n") for code in ("en", "de")}
    return {
        "contrast": cells(batch.contrast),
        "changed": cells(batch.changed),
        "followed": cells(batch.followed),
        "original class": [repr(c) for c in batch.original_class],
        "contrast class": [repr(c) for c in batch.contrast_class],
        "text en": [e.text(language="en") for e in each],
        "text de": [e.text(language="de") for e in each],
        "ways of saying it": [
            shown.text(style, template=template, seed=seed, hedge=True)
            for style in STYLES
            for template in templates
            for seed in (0, 1)
        ],
        "verdict": [None if e.proof is None else e.proof["verdict"] for e in each],
        "json": list(batch.to_dicts()),
        **frames,
        "calls": batch.calls,
        "metrics": {k: repr(v) for k, v in batch.metrics().to_dict().items()},
        "printed": [repr(batch), repr(shown), *map(str, shown.changes)],
        "picture": sha(shown.to_svg()),
        **(further(batch, shown) if pages else {}),
    }


def further(batch: grace.Explanations, shown: grace.Explanation) -> dict[str, Any]:
    """Pages, and pictures of other kinds."""
    return {
        "json as written": sha(batch.to_json(language="de")),
        "narrow picture in German": sha(shown.in_language("de").to_svg(width=380, theme="dark")),
        "pictures of the batch": [sha(batch.to_svg(kind)) for kind in ("features", "changes", "heatmap")],
        "page": sha(shown.to_html()),
        "page of the batch": sha(batch.to_html()),
    }


def record(case: Case) -> dict[str, Any]:
    """A case with its answer or the error that it ended in, the warnings, and the CPU time it took."""
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            answer = case.answer()
        except grace.GraceError as error:
            answer = {"refused": str(error)}
        except ModuleNotFoundError as error:
            answer = {"left out": f"{error.name} is not installed"}
        except Exception as error:  # compared like any answer, and counted in the summary
            answer = {"crashed": f"{type(error).__name__}: {error}"}
    seconds = time.process_time() - begun
    answer["warnings"] = [f"{w.category.__name__}: {w.message}" for w in heard]
    return {"name": case.name, "seconds": seconds, "answer": answer}
