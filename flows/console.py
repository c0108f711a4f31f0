"""What is printed on the terminal: plain text, since names and messages come from strangers."""

from __future__ import annotations

from rich.console import Console


def make_console() -> Console:
    """Make a console that takes every text as it is: no markup, no emoji names, no guessed colours, no wrapping."""
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """Write out what would move the cursor or colour the screen, and keep a message on one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
