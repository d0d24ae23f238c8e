"""Whether a torch module computes what its layers say.

Weights are read off a module, for proofs and fast scores, only if each of its parts is exactly a plain layer: a
subclass, a hook, a parametrization or a `forward` of an instance may compute anything.
"""

from __future__ import annotations

from itertools import chain

from torch import Tensor, nn
from torch.nn.modules import module as global_hooks

from grace.models.network import Network

LAYERS = (nn.Sequential, nn.Linear, nn.ReLU, nn.Identity, nn.Dropout, nn.Flatten)
PARTS_OF_NETWORK = (nn.ModuleList, nn.Linear, nn.Embedding)
BUFFERS = {"numeric", "centre", "scale"}  # of a Network
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_plain(module: nn.Module) -> bool:
    """Whether the module is a Network or a Sequential of plain layers, and nothing but that."""
    if any(getattr(global_hooks, f"_global{hooks}", None) for hooks in HOOKS):
        return False
    own = type(module) is Network
    if not own and type(module) is not nn.Sequential:
        return False
    parts = module.modules()
    if own:
        next(parts)
        if set(module._buffers) != BUFFERS or not _untouched(module):
            return False
    kinds = PARTS_OF_NETWORK if own else LAYERS
    return all(type(part) in kinds and not part._buffers and _untouched(part) for part in parts)


def _untouched(part: nn.Module) -> bool:
    """Whether nothing was put on a module that could change what it computes: hooks, methods or tensors of its own."""
    held = vars(part)
    if any(held.get(hooks) for hooks in HOOKS) or held.get("_compiled_call_impl") is not None:
        return False
    kind = type(part)
    if any(callable(getattr(kind, name, None)) for name in held):
        return False
    known = ("weight", "bias") if kind in (nn.Linear, nn.Embedding) else ()
    if any(name not in known for name in part._parameters):
        return False
    tensors = chain(part._parameters.values(), part._buffers.values())
    return all(tensor is None or type(tensor) in (nn.Parameter, Tensor) for tensor in tensors)
