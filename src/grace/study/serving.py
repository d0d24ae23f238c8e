"""The server behind `grace study serve`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from grace.errors import GraceError


def serve(directory: str | Path, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve a study until interrupted; `ready` is told the address. Addresses of participants are not logged."""
    try:
        import uvicorn

        from grace.study.pages import create_app
    except ImportError as reason:
        raise GraceError(
            f"the studies' pages need more packages ({reason.name}); pip install 'grace-xai[web]'"
        ) from reason
    app = create_app(directory)
    place = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{place.getsockname()[1]}/")
    settings = uvicorn.Config(app, access_log=False, log_level="warning", server_header=False)
    try:
        uvicorn.Server(settings).run(sockets=[place])
    except KeyboardInterrupt:
        pass
    finally:
        place.close()


def _listen(host: str, port: int) -> socket.socket:
    place = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
        place.listen(128)
    except OSError as reason:
        place.close()
        raise GraceError(f"port {port} of {host} cannot be used: {reason.strerror}; choose another --port") from reason
    return place
