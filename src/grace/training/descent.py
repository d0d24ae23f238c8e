"""Optimisation: Adam with early stopping, restoring the best weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from grace.errors import GraceError
from grace.models.network import Network

if TYPE_CHECKING:
    from grace.training import Recipe

Progress = Callable[[int, int, float], None]
"""Called after each epoch with its number, the maximal number of epochs, and the validation loss."""


def descend(
    network: Network,
    train: tuple[Tensor, Tensor],
    held: tuple[Tensor, Tensor],
    recipe: Recipe,
    generator: torch.Generator,
    progress: Progress | None,
) -> None:
    """Minimise the loss by Adam until the validation loss has not improved for `patience` epochs; restores the best
    weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches are small: threading overhead dominates
    try:
        _epochs(network, *train, held, recipe, generator, progress)
    finally:
        torch.set_num_threads(threads)


def _loss(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy for classes, mean squared error for numbers."""
    out = network(x)
    return nn.functional.mse_loss(out[:, 0], y) if y.is_floating_point() else nn.functional.cross_entropy(out, y)


def _epochs(
    network: Network,
    x: Tensor,
    y: Tensor,
    held: tuple[Tensor, Tensor],
    recipe: Recipe,
    generator: torch.Generator,
    progress: Progress | None,
) -> None:
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.999), eps=1e-8)
    best, best_state, waited = np.inf, _copy(network), 0
    for epoch in range(1, recipe.max_epochs + 1):
        network.train()
        order = torch.randperm(len(x), generator=generator)
        for start in range(0, len(x), recipe.batch_size):
            batch = order[start : start + recipe.batch_size]
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(_loss(network, x[batch], y[batch]))
            optimiser.step()
        network.eval()
        with torch.no_grad():
            loss = float(_loss(network, *held))
        if progress is not None:
            progress(epoch, recipe.max_epochs, loss)
        if not np.isfinite(loss):
            raise GraceError(f"training failed in epoch {epoch}: the loss is {loss}; lower learning_rate")
        if loss < best:
            best, best_state, waited = loss, _copy(network), 0
        else:
            waited += 1
            if waited >= recipe.patience:
                break
    network.load_state_dict(best_state)


def _copy(network: Network) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
