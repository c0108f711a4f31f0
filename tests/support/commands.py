"""The command line, called as a function."""

from __future__ import annotations

from flows.cli import main


def ended(arguments: list[str]) -> int:
    """Run the command line; gives its exit code."""
    try:
        main(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    return 0
