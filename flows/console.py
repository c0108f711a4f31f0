"""What is printed on the terminal: plain text, since names and messages come from strangers."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

GOES_ON: Final = "a run goes on where it was when the same command is run again"


PIPE_COLUMNS: Final = 160


def make_console() -> Console:
    """Make a console that takes every text as it is: no markup, no emoji names, no guessed colours, no wrapping."""
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS  # nobody reads it through a window of 80
    return console


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"evenshard: warning: {printable(record.getMessage())}", err=True)


@contextmanager
def warnings_told(*names: str) -> Iterator[None]:
    """Print what these loggers warn of while the context lasts, whatever Prefect does with its own lines."""
    teller = _Teller(logging.WARNING)
    for name in names:
        logging.getLogger(name).addHandler(teller)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(teller)


def printable(text: str) -> str:
    """Write out what would move the cursor or colour the screen, and keep a message on one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
