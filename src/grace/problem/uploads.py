"""Large arrays to a GPU: through page-locked buffers that several threads fill, several times as fast as directly."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grace.schema.features import Floats
from grace.schema.large_tables import MOST_THREADS, on_threads

LARGE = 1 << 25  # bytes from which on it pays
BUFFER = 1 << 20  # numbers in a buffer, of which every thread has one


def uploaded(rows: Floats, device: torch.device) -> Tensor:
    """A copy of rows (n, d) on a device, in the same order in memory."""
    order = rows if rows.flags.c_contiguous else rows.T
    if device.type != "cuda" or rows.nbytes < LARGE or not order.flags.c_contiguous:
        return torch.as_tensor(rows, dtype=torch.float64, device=device)
    out = torch.empty(order.shape, dtype=torch.float64, device=device)
    source, target = torch.from_numpy(order.reshape(-1)), out.view(-1)
    torch.cuda.current_stream(device).synchronize()  # the memory may still be in use by what was called before
    on_threads(lambda first: copy_parts(source, target, parts(len(source), first)), range(MOST_THREADS))
    return out if order is rows else out.T


def copy_parts(source: Tensor, target: Tensor, some: Iterator[slice]) -> None:
    """Copy parts of an array, one after another, through one buffer."""
    buffer = torch.empty(BUFFER, dtype=source.dtype, pin_memory=True)
    stream = torch.cuda.Stream(target.device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for part in some:
            stream.synchronize()
            filled = buffer[: part.stop - part.start].copy_(source[part])
            target[part].copy_(filled, non_blocking=True)
        stream.synchronize()


def parts(size: int, first: int) -> Iterator[slice]:
    """Every MOST_THREADS-th part of an array of so many numbers."""
    for begin in range(first * BUFFER, size, MOST_THREADS * BUFFER):
        yield slice(begin, min(begin + BUFFER, size))
