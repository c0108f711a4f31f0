"""Names that strangers chose, in messages that people read."""

from __future__ import annotations

from typing import Final

_MAX_CHARS: Final = 200


def shown(name: str) -> str:
    """Give a name as one printable line of at most some 200 signs, so that it can neither break nor flood a log."""
    cut = name if len(name) <= _MAX_CHARS else name[: _MAX_CHARS - 3] + "..."
    return cut if cut.isprintable() else ascii(cut)[1:-1]
