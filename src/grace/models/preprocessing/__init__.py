"""What stands between the columns of a table and an estimator of scikit-learn.

reading        a fitted pipeline as columns of its last estimator's input: `read_preprocessing`
columns        such a column as a function of one original cell: affine, monotone, steps or a table
transformers   what each transformer of scikit-learn does to columns
thresholds     where a monotone function crosses a threshold, to the last bit
calibration    calibrated probabilities on top of an estimator
formulas       logarithms, powers, quantiles and bins of numbers in closed form, with their inverses
known_ranges   the numbers for which it is known what is made of them
first_layer    what each feature adds to a first layer behind preprocessing
inputs         rows as layers get them, where those are functions of numbers
layers         linear models and perceptrons behind preprocessing, as layers on the features of a schema
"""

from grace.models.preprocessing.columns import AFFINE, MONOTONE, STEPS, TABLE, Column
from grace.models.preprocessing.reading import Preprocessing, read_preprocessing
from grace.models.preprocessing.thresholds import threshold_in_original

__all__ = [
    "AFFINE",
    "MONOTONE",
    "STEPS",
    "TABLE",
    "Column",
    "Preprocessing",
    "read_preprocessing",
    "threshold_in_original",
]
