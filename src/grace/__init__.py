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

from typing import TYPE_CHECKING

from grace.lazy import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from grace import datasets, pictures, rules, scale, training
    from grace.batch import Explanations
    from grace.errors import GraceError
    from grace.explainer import Explainer
    from grace.explanation import Change, Explanation
    from grace.features import Categorical, Numeric
    from grace.models import Model, wrap
    from grace.schema import Schema
    from grace.store import load
    from grace.wanted import above, below, by, within

_HOMES = {
    "Categorical": "features",
    "Change": "explanation",
    "Explainer": "explainer",
    "Explanation": "explanation",
    "Explanations": "batch",
    "GraceError": "errors",
    "Model": "models",
    "Numeric": "features",
    "Schema": "schema",
    "above": "wanted",
    "below": "wanted",
    "by": "wanted",
    "load": "store",
    "within": "wanted",
    "wrap": "models",
}

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

__getattr__ = lazily(__name__, _HOMES, ("datasets", "pictures", "rules", "scale", "training"))
