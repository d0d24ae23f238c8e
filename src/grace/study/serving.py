"""The server behind `grace study serve`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grace.errors import GraceError
from grace.extras import pip_install


def serve(directory: str | Path, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve a study until interrupted; `ready` is told the address. Addresses of participants are not logged."""
    try:
        from grace.study.pages import create_app
        from grace.web.guard import run
    except ImportError as reason:
        raise GraceError(f"the studies' pages need more packages ({reason.name}): {pip_install('web')}") from reason
    run(create_app(directory), host, port, ready)
