"""GRACE answers "why this class rather than that one?" about a model on a table.

    table ──Schema──▶ rows ──Model──▶ class X ──Ranking──▶ order ──Method──▶ x̃ ──polish──▶ Explanation

Each entry imports only what stands below it:

cli          every command of `grace`, and terminal output
experiments  the paper's experiments again, and benchmarks beside other libraries
study        the paper's user studies; LIME in the same terms
web          the page behind `grace serve`, and its JSON API
scale        tables of any size as jobs that can be resumed, and Ray
explain      Explainer, Explanation and Explanations; saving, metrics, why there is no answer, records to replay
pictures     figures and HTML reports
training     the paper's networks
datasets     the embedded tables
proofs       certificates for ReLU networks and trees: no fewer changes, no nearer values
methods      search, gradient, local, nearest, deepfool; ranking, moves, polish, line search
problem      what a method is given: space, goal, settings, background rows, and further requirements
text         sentences: precision, vocabulary, languages
models       scores and gradients of networks, estimators, boosted trees, ONNX, functions
schema       features and their domains, columns as numbers, rules, groups, SU, reading tables
errors       GraceError

docs/architecture.md has a picture of it, and says where to change what.
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
    "grace.study.figure": "grace.study.analysis",
    "grace.study.planning": "grace.study.power",
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


sys.meta_path.insert(0, _MovedModules())
__getattr__ = lazily(__name__, _HOMES, _MODULES)
