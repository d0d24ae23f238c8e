"""Linear models and perceptrons behind preprocessing, as layers on the features that people see.

A number that is only scaled is folded into the weights of the first layer. Of a category, every value is sent through
the pipeline, and what arrives at the first layer is a table; so is a missing cell of a number that the pipeline fills
in. A logarithm, a power, quantiles or bins of a number are what the layers get of it (see `inputs`); a linear model of
bins alone is read as trees (`grace.models.trees.step_functions`). Numbers that are changed in another way, and columns
of single precision, are not read: the model stays a black box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grace.models.base import Model
from grace.models.checking import Origin
from grace.models.predictor import Predictor, one_thread_if_small
from grace.models.preprocessing.calibration import read_calibration
from grace.models.preprocessing.columns import STEPS
from grace.models.preprocessing.first_layer import FirstLayer, functions_of
from grace.models.preprocessing.formulas import Bins
from grace.models.preprocessing.inputs import TransformedInputs
from grace.models.preprocessing.known_ranges import known_ranges
from grace.models.preprocessing.reading import Preprocessing, read_preprocessing
from grace.models.preprocessing.transformers import untouched
from grace.models.threshold import Cutoffs
from grace.models.to_torch import Layers, SameDecisions, estimator_layers, module, probabilities_missing
from grace.models.torch import TorchModel
from grace.schema.features import Floats, Numeric, plain


def read_layers(
    model: Any, itself: Callable[[Cutoffs | None], Model], asked: Predictor, rows: Floats
) -> TorchModel | None:
    """The estimator behind its preprocessing as layers on the features of the schema that it is bound to, or None.
    `asked` is the bound model as a black box, `itself` makes it anew, and `rows` are samples of the domain."""
    schema = asked.schema
    if schema is None:
        return None
    try:
        with one_thread_if_small(len(rows)):
            found = _network(model)
            if found is None or not _same_classes(model, asked, found[0]):
                return None
            layers, activation, preprocessing = found
            first = FirstLayer(*layers[0], preprocessing, asked, rows)
            if not first.fits:
                return None
            encode = TransformedInputs(schema, functions_of(first), known_ranges(preprocessing, asked, schema))
            if len(layers) == 1 and _is_stepped(first, encode):
                return None
            layers[0] = _folded(first, encode)
    except Exception:  # whatever a pipeline raises on a category or a row that it does not take
        return None
    plain_inputs = encode.then if encode.then.categories or encode.then.missing else None
    out = TorchModel(
        module(layers, activation),
        asked.classes,
        encode=encode if encode.functions else plain_inputs,
        outputs="logits",
        schema=schema,
        task=asked.task,
    )
    agrees = SameDecisions(asked.task, asked.classes)
    out.origin = Origin(asked.name, Decisions(asked), agrees, itself)
    out.name, out.subject, out.file = asked.name, asked.subject, asked.file
    if asked.task != "regression":
        scores = out.scores(torch.as_tensor(rows)).numpy()
        why = probabilities_missing(model, asked.given(rows), scores)
        named = asked.cutoffs is not None and bool(asked.cutoffs.named)
        if why and named:  # the cut-off is one of probabilities that the layers do not have
            return None
        out.no_probabilities_because = why if asked.cutoffs is None or named else asked.no_probabilities_because
    return out if asked.cutoffs is None else out.with_cutoffs(asked.cutoffs)


def _network(model: Any) -> tuple[Layers, str, Preprocessing] | None:
    """The layers of the last estimator with the activation between them, and what stands in front of it."""
    found = read_preprocessing(model)
    calibrated = None if found is None else read_calibration(found[0])
    line = None
    if found is not None and calibrated is not None:
        inner, calibration = calibrated
        line = calibration.line
        if line is None or calibration.response != "decision_function":
            return None
        found = read_preprocessing(inner, found[1])
    if found is None or not untouched(found[0], "predict", "predict_proba", "decision_function"):
        return None
    read = estimator_layers(found[0])
    if read is None:
        return None
    layers, activation = read
    if line is not None:
        weight, bias = layers[-1]
        if weight.shape[1] != 1:
            return None
        layers[-1] = weight * line[0], bias * line[0] + line[1]
    return layers, activation, found[1]


def _same_classes(model: Any, asked: Predictor, layers: Layers) -> bool:
    """Whether the outputs of the last layer are those of the classes, in their order."""
    outputs, wanted = layers[-1][0].shape[1], asked.width
    own = [plain(c) for c in np.asarray(getattr(model, "classes_", ())).tolist()]
    permuted = own != list(asked.classes) and bool(set(own) & set(asked.classes))
    return not permuted and (outputs == wanted or (outputs == 1 and wanted == 2))


def _is_stepped(first: FirstLayer, encode: TransformedInputs) -> bool:
    """Whether every number that the layer gets is bins: a linear model is then read as trees."""
    binned = {j for j, function in encode.functions if isinstance(function.formula, Bins)}
    numbers = [first.columns(j) for j in encode.then.numeric]
    used = any(column.kind != STEPS and first.weight[c].any() for columns in numbers for c, column in columns)
    return bool(binned) and not used


def _folded(first: FirstLayer, encode: TransformedInputs) -> tuple[Floats, Floats]:
    """The first layer, weights (inputs, units) and biases, on rows as `encode` gives them instead of the inputs of the
    estimator."""
    then, bias, functions = encode.then, first.bias, dict(encode.functions)
    out = np.zeros((then.width, first.weight.shape[1]))
    for j, block in then.blocks.items():
        bins = functions[j].formula if j in functions else None
        codes = np.arange(block.stop - block.start)
        out[block] = first.bins(j, bins) if isinstance(bins, Bins) else first.added(j, codes)
    for at, j in enumerate(then.numeric):
        feature, constant = first.schema.features[j], 0.0 * bias
        assert isinstance(feature, Numeric)
        for c, column in first.columns(j):
            if column.kind == STEPS:  # whether the cell is missing: the same of all that are not
                constant = constant + first.made(j, np.array([feature.typical or 0.0]))[0, c] * first.weight[c]
            elif first.weight[c].any():
                assert column.formula is not None
                scale, shift = column.formula.without_last_lines[1:] if j in functions else (column.scale, column.shift)
                out[at] += scale * first.weight[c]
                constant = constant + shift * first.weight[c]
        bias = bias + constant
        if j in then.gaps:  # where the cell is missing, the number counts as 0
            out[then.gaps[j]] = first.added(j, np.array([feature.missing_code]))[0] - constant
    return out, bias


@dataclass(frozen=True)
class Decisions:
    """What the model itself decides or predicts for encoded rows."""

    asked: Predictor

    def __call__(self, rows: Floats) -> Any:
        ask = self.asked.labels or self.asked.readers[0].ask
        given = self.asked.given(rows)
        with one_thread_if_small(len(rows)):
            return ask(given)
