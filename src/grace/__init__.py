"""GRACE answers "why this class rather than that one?" about a model on a table.

    table ──Schema──▶ rows ──Model──▶ class X ──Ranking──▶ order ──Method──▶ x̃ ──polish──▶ Explanation

features     what each feature may be, and how a person speaks of it; columns turns cells into numbers and back
tables       reads CSV and Parquet: csv_text is about files, text_columns, text_numbers and text_dates about their cells
schema       all of them: dom(X); groups are columns of which one is on; rules hold between features; limits are
             those of a call; schema_file is for people to edit
models       scores(rows), and gradients where there are any: networks, estimators, boosted trees, ONNX, functions;
             cut-offs shift the scores; what is read off layers is compared with the model
space        the coordinates in which a row moves
goal         what counts as an answer: a margin on the scores; wanted is of a number; contrast reads it off a call
sources      training rows in a frame or in Parquet of any size
learning     what is learnt from training rows: SU, background, what is typical
information  entropy, MDLP bins, symmetrical uncertainty (SU)
ranking      W_Gradient, W_Local, and W_Entropy (SU ≤ γ) around either
methods      search, gradient, local, nearest, deepfool: rows to contrastive rows; kernels for ReLU networks on a GPU
moves        single changes, and what each does to the margin; decimals are values that can be said
polish       makes any x̃ irreducible, near and sayable; boundary brings one value near; arrays keep the books
certificate  proves that no fewer changes do: prover branches over nodes, relaxation bounds them; gap: nor nearer values
answers      solves, polishes, proves and verifies; explainer puts it together; settings says how; cancellation stops
             work that nobody waits for any more
memory       a budget, and how many rows fit into it at a time; asking goes through them
demands      more to ask of answers: robust, that they hold for other models; plausibility, that they are typical;
             realistic, that they keep rules and that what goes with a change follows, by rules or by association
explanation  one answer, batch many, answer_table a line for each; proof_record is what was proven, and under which
             limits; text, pictures, report, metrics and ways_out say what was found; shortening cuts long names
degrees      how precisely a difference is said; wording finds the words, languages has one package per language
lime         LIME in the same terms; study runs the paper's user studies of both
datasets     the paper's tables; training its networks; cli and terminal are the command
store        saves and loads explainers; saved_model finds their model again; parsing reads files that anybody may have
             written; audit_record is a record of an answer that can be replayed; spreadsheets are CSV without formulas
extras       the optional packages, and how to install them
experiments  benchmarks beside other libraries, and the paper's experiments again
scale        tables of any size, jobs that survive, and Ray
web          the page behind `grace serve`, and its JSON API
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from grace import datasets, pictures, scale, training
    from grace.errors import GraceError
    from grace.explain.explainer import Explainer
    from grace.explain.explanation import Change, Explanation
    from grace.explain.explanations import Explanations
    from grace.explain.store import load
    from grace.models import Model, wrap
    from grace.problem.target_range import above, below, by, within
    from grace.schema import rules
    from grace.schema.features import Categorical, Numeric
    from grace.schema.schema import Schema

_HOMES = {
    "Categorical": "schema.features",
    "Change": "explain.explanation",
    "Explainer": "explain.explainer",
    "Explanation": "explain.explanation",
    "Explanations": "explain.explanations",
    "GraceError": "errors",
    "Model": "models",
    "Numeric": "schema.features",
    "Schema": "schema.schema",
    "above": "problem.target_range",
    "below": "problem.target_range",
    "by": "problem.target_range",
    "load": "explain.store",
    "within": "problem.target_range",
    "wrap": "models",
}
_MODULES = ("datasets", "pictures", "rules", "scale", "training")
_MOVED = {
    "grace.audit_record": "grace.explain.audit_record",
    "grace.languages": "grace.text.languages",
    "grace.lime": "grace.study.lime",
    "grace.rules": "grace.schema.rules",
    "grace.web.served": "grace.web.service",
}
"""Documented modules that had other names in version 0.1."""

__all__ = [
    "Categorical",
    "Change",
    "Explainer",
    "Explanation",
    "Explanations",
    "GraceError",
    "Model",
    "Numeric",
    "Schema",
    "above",
    "below",
    "by",
    "datasets",
    "load",
    "pictures",
    "rules",
    "scale",
    "training",
    "within",
    "wrap",
]


def lazily(package: str, homes: Mapping[str, str], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are imported on first use: the command must not wait for torch."""

    def attribute(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute


class _MovedModules(MetaPathFinder, Loader):
    """Imports a module by the name it had in an earlier version."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname in _MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(_MOVED[module.__name__])


sys.meta_path.append(_MovedModules())
__getattr__ = lazily(__name__, _HOMES, _MODULES)
