"""One process at a time compiles a part of the compiled code; others wait, and load what it has written to disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows each process compiles for itself
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone(part: str) -> Iterator[None]:
    """Within this context, no other process of this user is in that of the same part. The lock ends with the process,
    however it ends; where no lock can be had, there is none."""
    file = None
    if fcntl is not None:
        path = Path(tempfile.gettempdir()) / f"grace-{os.getuid()}-{part.replace(' ', '-')}.lock"
        with suppress(OSError):
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)
