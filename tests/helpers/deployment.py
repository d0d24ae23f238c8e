"""Reading the page about deployment."""

from __future__ import annotations

from pathlib import Path

import click

from grace.cli import main

ROOT = Path(__file__).parents[2]


def parsed(command: list[str]) -> click.Context:
    """The innermost context of a command line, without running it; a wrong option or value is an error."""
    assert command[0] == "grace"
    group = main.make_context("grace", command[1:2], resilient_parsing=True)
    found = main.get_command(group, command[1])
    assert found is not None, command
    return found.make_context(command[1], command[2:])
