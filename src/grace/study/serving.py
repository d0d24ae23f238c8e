"""The server behind `grace study serve`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from grace.errors import GraceError, pip_install


def serve(
    directory: str | Path,
    host: str,
    port: int,
    ready: Callable[[str], None],
    allow_host: Sequence[str] = (),
    proxy: Sequence[str] = (),
) -> None:
    """Serve a study until interrupted; `ready` is told the address. Addresses of participants are not logged."""
    try:
        from grace.study.pages import create_app
        from grace.web.hosts import hosts_of
        from grace.web.server import proxies_of, run
    except ImportError as reason:
        raise GraceError(f"the studies' pages need more packages ({reason.name}): {pip_install('web')}") from reason
    hosts, proxies = hosts_of(host, allow_host), proxies_of(proxy)
    run(create_app(directory, hosts), host, port, ready, proxies)
