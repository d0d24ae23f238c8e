"""Sparse attacks of torchattacks: `sparsefool` (Modas et al. 2019) and `jsma` (Papernot et al. 2016).

They attack images with pixels between 0 and 1: here, a pixel is a number scaled to its range (extended if the row lies
outside), or one code of a one-hot category. They have no limit K, and do not respect integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from protocol import Ask, Task, main
from unit import Unit


def prepare(task: Task, variant: str) -> Ask:
    import torchattacks

    torch.set_num_threads(1)
    numeric = [task.features[j] for j in task.numeric]
    low, high = np.array([f["low"] for f in numeric]), np.array([f["high"] for f in numeric])
    codes = {j: list(range(task.features[j]["categories"])) for j in task.categorical}

    def ask(i: int) -> Any:
        row = task.rows[i]
        x = row[task.numeric]
        net = Unit(task, np.minimum(low, x), np.maximum(high, x), codes).eval()
        image = torch.as_tensor(net.into(row)).reshape(1, 1, 1, -1)
        label = net(image).argmax(dim=1)
        if variant == "sparsefool":
            attacks = [torchattacks.SparseFool(net, steps=20, lam=3, overshoot=0.02)]
        else:
            attacks = [torchattacks.JSMA(net, theta=theta, gamma=1.0) for theta in (1.0, -1.0, 0.3, -0.3)]
            for attack in attacks:
                attack.set_mode_targeted_by_function(lambda *_: torch.tensor([task.runner_up(row)]))
        found = [net.back(attack(image, label)[0].double().numpy().reshape(-1), row) for attack in attacks]
        return best(task, row, found)

    return ask


def best(task: Task, row: Any, found: list[Any]) -> Any:
    """The result that flips the class with the fewest changes, then the smallest distance; None if none does."""
    predicted = task.logits(row)[0].argmax()
    spread = np.array([f.get("spread", 1.0) for f in task.features])
    flipped = [f for f in found if task.logits(f)[0].argmax() != predicted]
    return min(flipped, key=lambda f: ((f != row).sum(), (np.abs(f - row) / spread).sum()), default=None)


if __name__ == "__main__":
    main(prepare)
