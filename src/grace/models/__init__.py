"""Models behind one protocol: `scores(rows) -> (n, classes)`, and `slopes` where there are gradients."""

from grace.models.base import Model
from grace.models.network import Network
from grace.models.predictor import Predictor
from grace.models.torch import TorchModel
from grace.models.wrapping import wrap

__all__ = ["Model", "Network", "Predictor", "TorchModel", "wrap"]
