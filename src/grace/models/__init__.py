"""Models behind one protocol: `scores(rows) -> (n, classes)`, and `slopes` where there are gradients."""

from grace.models.base import Model
from grace.models.network import Network
from grace.models.torch import TorchModel, wrap

__all__ = ["Model", "Network", "TorchModel", "wrap"]
