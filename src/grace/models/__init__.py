"""Models behind one protocol: `scores(rows) -> (n, classes)`, and `slopes` where there are gradients.

base                Model, the protocol; wrapping finds the kind of a user's object
network             the paper's network; torch wraps any torch module
scaling             a user's encode function as factors and offsets; one_hot, the one of categories
relu                a ReLU network as a function of the features; gpu_layout and kernels are for GPUs
compiled            ReLU networks in compiled code; compiled_lines, exact lines along single features; vectors are
                    products with weights, compile_lock lets one process compile for others, and machine_code is
                    called at little cost
predictor           any black box with `predict`; finite_differences are its gradients, array_questions asks it faster,
                    with xgboost_calls
estimators          scikit-learn; to_torch turns linear models and perceptrons into layers
preprocessing       what stands in front of an estimator in a pipeline, column by column
boosting            XGBoost, LightGBM, CatBoost
trees               ensembles of trees, read from their libraries
onnx                ONNX graphs, read by onnx_files
grouped             a model whose one-hot columns are groups
threshold           cut-offs; thresholded, estimators that have their own
ensemble            several models side by side
checking            deterministic scores, and layers that agree with the model
files               models in files; identity tells one model from another
"""

from grace.models.base import Model
from grace.models.network import Network
from grace.models.predictor import Predictor
from grace.models.torch import TorchModel
from grace.models.wrapping import wrap

__all__ = ["Model", "Network", "Predictor", "TorchModel", "wrap"]
