"""The command `grace` as a server in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `grace` with these arguments on a free port, and wait until it prints its address: process and address."""
    command = [sys.executable, "-m", "grace.cli", *arguments, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            address, log = None, ""
            while address is None:
                line = server.stderr.readline()
                log += line
                if not line:
                    raise RuntimeError(f"the server has stopped: {log}")
                address = re.search(r"http://\S+", line)
            yield server, address[0]
        finally:
            server.kill()
