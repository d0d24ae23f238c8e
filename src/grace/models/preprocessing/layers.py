"""Linear models and perceptrons behind preprocessing, as layers on the features that people see.

A number that is only scaled is folded into the weights of the first layer. Of a category, every value is sent through
the pipeline, and what arrives at the first layer is a table; so is a missing cell of a number that the pipeline fills
in. Numbers that are changed in another way, and columns of single precision, are not read: the model stays a black box,
unless it is linear and its numbers are bins (see `grace.models.trees.step_functions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grace.models.base import Model
from grace.models.checking import Origin
from grace.models.one_hot import OneHot
from grace.models.predictor import Predictor, one_thread_if_small
from grace.models.preprocessing.calibration import read_calibration
from grace.models.preprocessing.columns import AFFINE, STEPS
from grace.models.preprocessing.first_layer import FirstLayer
from grace.models.preprocessing.reading import Preprocessing, read_preprocessing
from grace.models.preprocessing.transformers import untouched
from grace.models.threshold import Cutoffs
from grace.models.to_torch import Layers, SameDecisions, estimator_layers, module, probabilities_missing
from grace.models.torch import TorchModel
from grace.schema.columns import is_temporal
from grace.schema.features import Floats, Numeric, plain
from grace.schema.low_precision import is_low_precision


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
            folded = _folded(FirstLayer(*layers[0], preprocessing, asked, rows))
    except Exception:  # whatever a pipeline raises on a category or a row that it does not take
        return None
    if folded is None:
        return None
    layers[0] = folded
    encode = OneHot.of(schema)
    out = TorchModel(
        module(layers, activation),
        asked.classes,
        encode=encode if encode.categories or encode.missing else None,
        outputs="logits",
        schema=schema,
        task=asked.task,
    )
    agrees = SameDecisions(asked.task, asked.classes)
    out.origin = Origin(asked.name, Decisions(asked), agrees, itself)
    out.subject, out.file = asked.subject, asked.file
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


def _folded(first: FirstLayer) -> tuple[Floats, Floats] | None:
    """The first layer, weights (inputs, units) and biases, on rows as `OneHot` gives them instead of the inputs of the
    estimator; None if a feature is not read."""
    if not first.fits:
        return None
    schema, weight, bias = first.schema, first.weight, first.bias
    encode = OneHot.of(schema)
    out = np.zeros((encode.width, weight.shape[1]))
    for j, block in encode.blocks.items():
        out[block] = first.added(j, np.arange(block.stop - block.start))
    for at, j in enumerate(encode.numeric):
        feature, columns = schema.features[j], first.columns(j)
        assert isinstance(feature, Numeric)
        if columns and (is_low_precision(feature) or is_temporal(feature)):
            return None
        known = 0.0 * bias
        for c, column in columns:
            if column.kind == AFFINE:
                out[at] += column.scale * weight[c]
                known = known + column.shift * weight[c]
            elif column.kind == STEPS and not column.cuts:  # whether the cell is missing: the same of all that are not
                known = known + first.made(j, np.array([feature.typical or 0.0]))[0, c] * weight[c]
            else:
                return None
        bias = bias + known
        if j in encode.gaps:  # where the cell is missing, the number counts as 0
            out[encode.gaps[j]] = first.added(j, np.array([feature.missing_code]))[0] - known
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
